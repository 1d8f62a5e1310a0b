# Puts files into a program: cmake -DOUTPUT=x.c -DFILES=a/report.html,b/report.css -P embed.cmake writes arrays report_html
# and report_css, with report_html_size and report_css_size.
string(REPLACE "," ";" FILES "${FILES}")
set(text "/* Written by embed.cmake. */\n#include <stddef.h>\n")
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME)
  string(MAKE_C_IDENTIFIER ${name} name)
  file(READ ${file} bytes HEX)
  string(LENGTH "${bytes}" size)
  math(EXPR size "${size} / 2")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
  string(REGEX REPLACE "('[^']*','[^']*','[^']*','[^']*','[^']*','[^']*','[^']*','[^']*','[^']*','[^']*','[^']*','[^']*',)"
         "\\1\n" bytes "${bytes}")
  string(APPEND text "extern const char ${name}[];\nextern const size_t ${name}_size;\n"
         "const char ${name}[] = {\n${bytes}};\nconst size_t ${name}_size = ${size};\n")
endforeach()
file(WRITE ${OUTPUT} "${text}")
