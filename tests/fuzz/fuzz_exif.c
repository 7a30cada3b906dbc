// An Exif block: what it says of the picture's orientation.
#include "data/exif.h"
#include "fuzz/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    const int orientation = ls_exif_orientation(data, bytes);
    fuzz_expect(orientation >= 1 && orientation <= 8, "orientation %d", orientation);
    return 0;
}
