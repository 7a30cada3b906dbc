// stb_image.c - the only file that compiles stb_image, for the kinds in image_check.c. Its failure reason is
// thread-local (STBI_THREAD_LOCAL, which it defines for C17), because the loader's workers decode at the same time.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#define STB_IMAGE_IMPLEMENTATION
#define STBI_ONLY_JPEG
#define STBI_ONLY_PNG
#define STBI_ONLY_BMP
#define STBI_ONLY_GIF
#define STBI_ONLY_PNM
#define STBI_ONLY_TGA
#define STBI_NO_STDIO
#define STBI_NO_HDR
#define STBI_NO_LINEAR
#define STBI_MAX_DIMENSIONS 65535
#include <stb/stb_image.h>
#ifndef STBI_THREAD_LOCAL
#error "stb_image without thread-local storage: its failure reason would be shared by the loader's workers"
#endif
#pragma GCC diagnostic pop
