# Runs at build time. Writes OUT, a C file with the bytes of FILES (names in FOLDER, separated by commas). The bytes of
# page.css become the array ls_page_css, with its length in ls_page_css_bytes.
string(REPLACE "," ";" files "${FILES}")
set(text "#include <stddef.h>\n")
foreach(file IN LISTS files)
  string(MAKE_C_IDENTIFIER "ls_${file}" name)
  file(READ "${FOLDER}/${file}" bytes HEX)
  string(REGEX REPLACE "(................................................................)" "\\1\n" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(APPEND text "extern const unsigned char ${name}[];\nextern const size_t ${name}_bytes;\n"
    "const unsigned char ${name}[] = {\n${bytes}};\nconst size_t ${name}_bytes = sizeof ${name};\n")
endforeach()
file(WRITE "${OUT}" "${text}")
