# Run by each build: OUTPUT becomes a header that names the commit; it is only touched when that changes.
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=12 --match= OUTPUT_VARIABLE commit
  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed OR NOT EXISTS ${SOURCE}/.git)
  set(commit "not built from a repository")
else()
  set(commit "commit ${commit}")
endif()
file(WRITE ${OUTPUT}.new "#define AG_VERSION \"${VERSION}\"\n#define AG_COMMIT \"${commit}\"\n")
execute_process(COMMAND ${CMAKE_COMMAND} -E copy_if_different ${OUTPUT}.new ${OUTPUT})
