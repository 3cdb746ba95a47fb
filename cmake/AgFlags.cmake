# Compiler flags that every target of the project shares: target_link_libraries(x PRIVATE ag_flags).
add_library(ag_flags INTERFACE)
target_compile_options(ag_flags INTERFACE $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra -Wstrict-prototypes
  -Wmissing-prototypes -Wshadow -Wpointer-arith -Wwrite-strings -fno-common -fstack-protector-strong>)
# A function that begins with a cache line takes fewer of them (docs/fast-path.md, rule 12).
target_compile_options(ag_flags INTERFACE $<$<COMPILE_LANGUAGE:C>:-falign-functions=64>)
target_link_options(ag_flags INTERFACE -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
if(AG_WERROR)
  target_compile_options(ag_flags INTERFACE $<$<COMPILE_LANGUAGE:C>:-Werror>)
endif()
if(AG_SANITIZE)
  target_compile_options(ag_flags INTERFACE $<$<COMPILE_LANGUAGE:C>:-fsanitize=${AG_SANITIZE}
    -fno-omit-frame-pointer -fno-sanitize-recover=all>)
  target_link_options(ag_flags INTERFACE -fsanitize=${AG_SANITIZE})
endif()
