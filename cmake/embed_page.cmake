# SPDX-License-Identifier: Apache-2.0
# Writes a C file that holds the chat page and the policy under which browsers run it, which names
# the one script and the one style sheet of the page by their SHA-256. See samples/serve/page.h.
#
# usage: cmake -DPAGE=page.html -DOUTPUT=page.c -P embed_page.cmake

# 64 hexadecimal digits to 44 of base64: 3 digits are 12 bits are 2 digits.
function(base64_of_hex hex out)
  set(alphabet "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
  set(text "")
  foreach(begin RANGE 0 63 3)
    string(SUBSTRING "${hex}00" ${begin} 3 digits)
    math(EXPR high "0x${digits} / 64")
    math(EXPR low "0x${digits} % 64")
    string(SUBSTRING "${alphabet}" ${high} 1 high)
    string(SUBSTRING "${alphabet}" ${low} 1 low)
    string(APPEND text "${high}${low}")
  endforeach()
  string(SUBSTRING "${text}" 0 43 text)
  set(${out} "${text}=" PARENT_SCOPE)
endfunction()

# The SHA-256 of what stands within <TAG> and </TAG> in the page, as a source of a policy.
function(source_of_element tag out)
  string(FIND "${page}" "<${tag}>" begin)
  string(FIND "${page}" "</${tag}>" end)
  string(FIND "${page}" "<${tag}>" last_begin REVERSE)
  if(begin EQUAL -1 OR end LESS begin OR NOT begin EQUAL last_begin)
    message(FATAL_ERROR "${PAGE}: expected one <${tag}> without attributes and its end")
  endif()
  string(LENGTH "<${tag}>" tag_bytes)
  math(EXPR begin "${begin} + ${tag_bytes}")
  math(EXPR bytes "${end} - ${begin}")
  string(SUBSTRING "${page}" ${begin} ${bytes} text)
  string(SHA256 hash "${text}")
  base64_of_hex(${hash} hash)
  set(${out} "'sha256-${hash}'" PARENT_SCOPE)
endfunction()

file(READ "${PAGE}" page)
source_of_element(style style)
source_of_element(script script)
set(policy "default-src 'none'; style-src ${style}; script-src ${script}; connect-src 'self'")
string(APPEND policy "; img-src data:; base-uri 'none'; form-action 'none'")
string(APPEND policy "; frame-ancestors 'none'")

file(READ "${PAGE}" bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE "${OUTPUT}" "// Made from page.html by embed_page.cmake.
#include \"page.h\"

const unsigned char serve_page[] = {
${bytes}
};
const size_t serve_page_bytes = sizeof serve_page;
const char serve_page_policy[] = \"${policy}\";
")
