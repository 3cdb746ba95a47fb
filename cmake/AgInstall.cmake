# What is installed beside the library and the command, and `uninstall`, which takes all of it away again.
set(AG_DOC_FOLDER ${CMAKE_INSTALL_DATADIR}/doc/libautograph)
if(TARGET autograph_command)
  find_program(AG_GZIP gzip REQUIRED)
  set(manual ${CMAKE_SOURCE_DIR}/tools/man/autograph.1)
  add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/autograph.1.gz
    COMMAND ${AG_GZIP} -9nc ${manual} > ${CMAKE_BINARY_DIR}/autograph.1.gz DEPENDS ${manual} VERBATIM)
  add_custom_target(autograph_manual ALL DEPENDS ${CMAKE_BINARY_DIR}/autograph.1.gz)
  install(FILES ${CMAKE_BINARY_DIR}/autograph.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${CMAKE_SOURCE_DIR}/tools/completion/autograph.bash
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME autograph)
endif()

# In the folders of the source, so that links between the pages lead somewhere.
file(GLOB pages CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/docs/*.md ${CMAKE_SOURCE_DIR}/docs/*.svg ${CMAKE_SOURCE_DIR}/docs/*.png)
install(FILES ${pages} DESTINATION ${AG_DOC_FOLDER}/docs)
install(FILES ${CMAKE_SOURCE_DIR}/README.md ${CMAKE_SOURCE_DIR}/CHANGELOG.md ${CMAKE_SOURCE_DIR}/LICENSE
  DESTINATION ${AG_DOC_FOLDER})
foreach(folder tests/fuzz tests/gpu/fuzz)
  install(FILES ${CMAKE_SOURCE_DIR}/${folder}/README.md DESTINATION ${AG_DOC_FOLDER}/${folder})
endforeach()

# A modulefile (Lmod, Environment Modules). It finds its folder by where it lies.
set(modules ${CMAKE_INSTALL_DATADIR}/modulefiles/libautograph)
file(RELATIVE_PATH AG_MODULE_TO_LIBRARY /prefix/${modules} /prefix/${CMAKE_INSTALL_LIBDIR}/libautograph.so)
file(RELATIVE_PATH AG_MODULE_TO_COMMAND /prefix/${modules} /prefix/${CMAKE_INSTALL_BINDIR})
configure_file(${CMAKE_SOURCE_DIR}/cmake/modulefile.in ${CMAKE_BINARY_DIR}/modulefile @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/modulefile DESTINATION ${modules} RENAME ${PROJECT_VERSION})

add_custom_target(uninstall COMMAND ${CMAKE_COMMAND} -P ${CMAKE_SOURCE_DIR}/cmake/uninstall.cmake VERBATIM)
