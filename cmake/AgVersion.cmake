# The target ag_version: a header ag_version.h with AG_VERSION and AG_COMMIT.
set(version_folder ${CMAKE_BINARY_DIR}/version)
file(MAKE_DIRECTORY ${version_folder})
add_custom_target(ag_version_header BYPRODUCTS ${version_folder}/ag_version.h
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR} -DVERSION=${PROJECT_VERSION} -DOUTPUT=${version_folder}/ag_version.h
    -P ${CMAKE_SOURCE_DIR}/cmake/write_version.cmake VERBATIM)
add_library(ag_version INTERFACE)
target_include_directories(ag_version INTERFACE ${version_folder})
add_dependencies(ag_version ag_version_header)
