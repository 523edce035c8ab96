/* A library with the functions of NVRTC, of any version, that makes of every program a text: who it is, and who its
   builtins are. As NVRTC does, it loads them by their bare name when it compiles. */

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define TEXT(x) #x
#define EXPANDED(x) TEXT(x)

typedef struct { char text[256]; } *Program;

int nvrtcVersion(int *major, int *minor) { *major = MAJOR; *minor = MINOR; return STATUS; }
int nvrtcGetNumSupportedArchs(int *number) { *number = 1; return 0; }
int nvrtcGetSupportedArchs(int *numbers) { *numbers = 90; return 0; }

int nvrtcCreateProgram(Program *program, const char *source, const char *name, int number, const char *const *headers,
                       const char *const *names) {
  *program = calloc(1, sizeof(**program));
  return 0;
}

int nvrtcDestroyProgram(Program *program) { free(*program); return 0; }

int nvrtcCompileProgram(Program program, int number, const char *const *options) {
  void *builtins = dlopen("libnvrtc-builtins.so." EXPANDED(MAJOR) "." EXPANDED(MINOR), RTLD_NOW);
  const char *(*answer)(void) = builtins ? (const char *(*)(void))dlsym(builtins, "answer") : NULL;
  snprintf(program->text, sizeof(program->text), "%s with %s", ANSWER, answer ? answer() : "none");
  return 0;
}

static int size_of(Program program, size_t *size) { return *size = sizeof(program->text), 0; }
static int copy_of(Program program, char *into) {
  for (size_t at = 0; at < sizeof(program->text); at++) into[at] = program->text[at];
  return 0;
}

int nvrtcGetPTXSize(Program program, size_t *size) { return size_of(program, size); }
int nvrtcGetPTX(Program program, char *into) { return copy_of(program, into); }
int nvrtcGetCUBINSize(Program program, size_t *size) { return size_of(program, size); }
int nvrtcGetCUBIN(Program program, char *into) { return copy_of(program, into); }
#ifndef NO_LTO_IR
int nvrtcGetLTOIRSize(Program program, size_t *size) { return size_of(program, size); }
int nvrtcGetLTOIR(Program program, char *into) { return copy_of(program, into); }
#endif
int nvrtcGetProgramLogSize(Program program, size_t *size) { *size = 1; return 0; }
int nvrtcGetProgramLog(Program program, char *into) { *into = 0; return 0; }
int nvrtcAddNameExpression(Program program, const char *expression) { return 0; }
int nvrtcGetLoweredName(Program program, const char *expression, const char **name) { *name = expression; return 0; }
