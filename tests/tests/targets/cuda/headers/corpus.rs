//! Programs that include headers in every way that we know of. `Program::lay_out` says how they are written.

pub(crate) const CORPUS: &[(&str, &str)] = &[
    ("no header", "== k.cu\n#define A 1\n"),
    (
        "nested",
        r#"
== k.cu
#include "a.h"
== src/a.h
#include "s/b.h"
== src/s/b.h
#include "c.h"
== src/s/c.h
#define A 3
"#,
    ),
    (
        "a header is looked for beside its includer, and not beside the program",
        r#"
== k.cu
#include "s/b.h"
== src/s/b.h
#include "c.h"
== src/c.h
#define A 3
== i1/c.h
#define A 4
"#,
    ),
    (
        "an includer's includer is not looked beside",
        r#"
!! fails
== k.cu
#include "s/b.h"
== src/s/b.h
#include "t/c.h"
== src/s/t/c.h
#include "d.h"
== src/s/d.h
#define A 3
"#,
    ),
    (
        "sibling before path",
        r#"
== k.cu
#include <a.h>
== i1/a.h
#include "b.h"
== i0/b.h
#define A 1
== i1/b.h
#define A 2
"#,
    ),
    (
        "angle brackets go by the path alone",
        r#"
== k.cu
#include <a.h>
== src/a.h
#define A 1
== i1/a.h
#include <b.h>
== i0/b.h
#define A 2
== i1/b.h
#define A 3
"#,
    ),
    (
        "quotes go by the path as well",
        r#"
== k.cu
#include "a.h"
== i2/a.h
#define A 2
"#,
    ),
    (
        "shadowed along the path",
        r#"
== k.cu
#include <a.h>
== i0/a.h
#define A 1
== i1/a.h
#define A 2
== i2/a.h
#define A 3
"#,
    ),
    (
        "no source include",
        r#"
!! no-source-include
== k.cu
#include "a.h"
== src/a.h
#define A 1
== i1/a.h
#include "b.h"
== i1/b.h
#define A 2
== i0/b.h
#define A 3
"#,
    ),
    (
        "conditional on the architecture",
        r#"
!! conditional
== k.cu
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 200
#include "new.h"
#else
#include "old.h"
#endif
== src/new.h
#define A 1
== src/old.h
#define A 2
"#,
    ),
    (
        "conditional on the compiler",
        r#"
!! conditional
== k.cu
#ifndef __CUDACC_RTC__
#include <host.h>
#include <stdio.h>
#else
#include <device.h>
#endif
== i0/host.h
#include "deep.h"
== i0/deep.h
#define A 9
== i0/device.h
#define A 1
"#,
    ),
    (
        "conditional on a macro of the user",
        r#"
!! conditional
!! define WIDE=2
== k.cu
#if WIDE == 2
#include "wide.h"
#else
#include "narrow.h"
#endif
== src/wide.h
#define A 16
== src/narrow.h
#define A 8
"#,
    ),
    (
        "skipped",
        r#"
!! conditional
== k.cu
#if 0
#include "a.h"
#include "nowhere.h"
#include
#include "
#include <
don't "stop
#endif
#define A 2
== src/a.h
#error
"#
        .trim_ascii(),
    ),
    (
        "a macro for a name",
        r#"
!! untold
== k.cu
#define HEADER "a.h"
#include HEADER
== src/a.h
#define A 1
"#,
    ),
    (
        "a macro for a name in angle brackets",
        r#"
!! untold
== k.cu
#define HEADER <s/a-1.h>
#include HEADER // that
== i1/s/a-1.h
#define A 1
"#,
    ),
    (
        "a macro for a macro",
        r#"
!! untold
== k.cu
#define INNER "a.h"
#define HEADER INNER
#include /* the */ HEADER
== src/a.h
#define A 1
"#,
    ),
    (
        "a macro from the command line",
        r#"
!! untold
!! define HEADER="s/a.h"
== k.cu
#include HEADER
== src/s/a.h
#include "b.h"
== src/s/b.h
#define A 7
"#,
    ),
    (
        "a macro with two definitions",
        r#"
!! untold
== k.cu
#ifdef __CUDACC_RTC__
#define HEADER "device.h"
#else
#define HEADER "host.h"
#endif
#include HEADER
== src/device.h
#define A 1
== src/host.h
#define A 2
"#,
    ),
    (
        "a macro defined again",
        r#"
!! untold
== k.cu
#define HEADER "a.h"
#include HEADER
#undef HEADER
#define HEADER "b.h"
#include HEADER
== src/a.h
#define B 1
== src/b.h
#define A (B + 1)
"#,
    ),
    (
        "a macro defined in a header that a macro names",
        r#"
!! untold
== k.cu
#define FIRST "a.h"
#include FIRST
#include SECOND
== src/a.h
#define SECOND <b.h>
== i1/b.h
#define A 3
"#,
    ),
    (
        "a macro and its name",
        r#"
!! untold
== k.cu
#define HEADER "a.h"
#include "a.h"
#include HEADER
== src/a.h
#pragma once
enum { A = 1 };
"#,
    ),
    (
        "a macro that names what is elsewhere missing",
        r#"
!! untold
== k.cu
#define HEADER "b.h"
#include HEADER
#include <c.h>
== src/b.h
#define A 3
== i0/c.h
#if __has_include("b.h")
#include "b.h"
#undef A
#define A 4
#endif
"#,
    ),
    (
        "a macro that is not defined",
        r#"
!! conditional
== k.cu
#ifdef CONFIG
#include CONFIG
#endif
#define A 3
"#,
    ),
    (
        "a macro that names nothing",
        r#"
!! untold
== k.cu
#define HEADER "nowhere.h"
#include HEADER
"#,
    ),
    (
        "a macro for an absolute name",
        r#"
!! untold
== k.cu
#define HEADER "$ROOT/x/a.h"
#include HEADER
== x/a.h
#include "b.h"
== x/b.h
#define A 3
"#,
    ),
    (
        "a macro for an absolute name that is not there",
        r#"
!! untold
== k.cu
#define HEADER "$ROOT/x/a.h"
#include HEADER
#define A 2
"#,
    ),
    (
        "a macro that leads to two headers",
        r#"
!! untold
== k.cu
#define HEADER "a.h"
#include HEADER
#include <b.h>
== src/a.h
#define A 1
== i0/b.h
#include HEADER
== i0/a.h
#define A 2
"#,
    ),
    (
        "a macro that is sometimes no name",
        r#"
!! untold
== k.cu
#ifdef X
#define HEADER name(X)
#endif
#define HEADER "a.h"
#include HEADER
== src/a.h
#define A 1
"#,
    ),
    (
        "a macro in a macro's name",
        r#"
!! untold
== k.cu
#define s t
#define HEADER <s/a.h>
#include HEADER
== i0/t/a.h
#define A 1
"#,
    ),
    (
        "a pasted name",
        r#"
!! untold
== k.cu
#define HEADER CAT(a, .h)
#include HEADER
"#,
    ),
    (
        "the program's own name",
        r#"
!! untold
== k.cu
#include __FILE__
"#,
    ),
    (
        "cyclic and guarded",
        r#"
== k.cu
#include "a.h"
== src/a.h
#ifndef A_H
#define A_H
#include "b.h"
#define A (B + 1)
#endif
== src/b.h
#ifndef B_H
#define B_H
#include "a.h"
#define B 1
#endif
"#,
    ),
    (
        "cyclic and once",
        r#"
== k.cu
#include "a.h"
== src/a.h
#pragma once
#include "b.h"
enum { A = B + 1 };
== src/b.h
#pragma once
#include "a.h"
enum { B = 1 };
"#,
    ),
    (
        "cyclic until it is enough",
        r#"
== k.cu
#define LEVEL 0
#include "a.h"
== src/a.h
#if LEVEL == 0
#undef LEVEL
#define LEVEL 1
#include "a.h"
#elif LEVEL == 1
#undef LEVEL
#define LEVEL 2
#include "s/../a.h"
#else
#define A 3
#endif
== src/s/none.h
"#,
    ),
    (
        "cyclic without end",
        r#"
!! fails
== k.cu
#include "a.h"
== src/a.h
#include "b.h"
== src/b.h
#include "a.h"
"#,
    ),
    (
        "once, by two paths",
        r#"
== k.cu
#include "s/../a.h"
#include "a.h"
#include <./a.h>
#include "./a.h"
== src/s/none.h
== src/a.h
#pragma once
enum { A = 1 };
!! includes src
"#,
    ),
    (
        "once, through directories that lie in each other",
        r#"
!! includes i0 i0/s
== k.cu
#include <s/a.h>
#include <a.h>
== i0/s/a.h
#pragma once
#include "b.h"
enum { A = B };
== i0/s/b.h
#pragma once
enum { B = 3 };
"#,
    ),
    (
        "once, through a linked directory",
        r#"
!! link i0 i1
!! includes i0
== k.cu
#include <a.h>
#include "../i1/a.h"
== i0/a.h
#pragma once
#include "b.h"
enum { A = B };
== i0/b.h
#pragma once
enum { B = 3 };
"#,
    ),
    (
        "once, through a link to it",
        r#"
!! link ../src/a.h i0/b.h
== k.cu
#include "a.h"
#include <b.h>
== src/a.h
#pragma once
enum { A = 3 };
"#,
    ),
    (
        "a link is looked beside where it is, and not where it leads",
        r#"
!! link ../src/s/a.h i0/a.h
== k.cu
#include <a.h>
== src/s/a.h
#include "b.h"
== src/s/b.h
#define A 1
== i0/b.h
#define A 2
"#,
    ),
    (
        "one file in two places, read twice",
        r#"
!! link ../src/s/a.h i0/a.h
== k.cu
#include <a.h>
#define B A
enum { FIRST = A };
#undef A
#include "s/a.h"
enum { SECOND = A };
#undef A
#define A (FIRST * 10 + SECOND)
== src/s/a.h
#include "b.h"
== src/s/b.h
#define A 1
== i0/b.h
#define A 2
"#,
    ),
    (
        "one file in two places that asks to be read once",
        r#"
!! refused asks to be included once
!! link ../src/s/a.h i0/a.h
== k.cu
#include <a.h>
#include "s/a.h"
== src/s/a.h
#pragma once
#include "b.h"
== src/s/b.h
#define A 1
== i0/b.h
#define A 2
"#,
    ),
    (
        "the same text in two files that ask to be read once",
        r#"
!! fails
== k.cu
#include <a.h>
#include <b.h>
== i0/a.h
#pragma once
enum { A = 1 };
== i1/b.h
#pragma once
enum { A = 1 };
"#,
    ),
    (
        "diamond",
        r#"
== k.cu
#include "left.h"
#include "right.h"
#define A (LEFT + RIGHT)
== src/left.h
#include "base.h"
#define LEFT (BASE + 1)
== src/right.h
#include "base.h"
#define RIGHT (BASE + 2)
== src/base.h
#pragma once
enum { BASE = 10 };
"#,
    ),
    (
        "include_next",
        r#"
== k.cu
#include <a.h>
== i0/a.h
#include_next <a.h>
== i1/a.h
#include_next "a.h"
== i2/a.h
#define A 3
"#,
    ),
    (
        "include_next of another name",
        r#"
== k.cu
#include <a.h>
== i1/a.h
#include_next <b.h>
== i0/b.h
#define A 1
== i1/b.h
#define A 2
== i2/b.h
#define A 3
"#,
    ),
    (
        "include_next from beside the program starts over",
        r#"
== k.cu
#include "a.h"
== src/a.h
#include_next "a.h"
== i0/a.h
#define A 1
== i1/a.h
#define A 2
"#,
    ),
    (
        "include_next from a sibling starts over",
        r#"
== k.cu
#include <p.h>
== i1/p.h
#include "s/a.h"
== i1/s/a.h
#include_next <b.h>
== i0/b.h
#define A 1
== i2/b.h
#define A 2
"#,
    ),
    (
        "include_next of itself, from a sibling",
        r#"
== k.cu
#include <p.h>
== i0/p.h
#include "s/a.h"
== i0/s/a.h
#include_next <s/a.h>
== i1/s/a.h
#define A 1
"#,
    ),
    (
        "include_next in the program",
        r#"
== k.cu
#include_next "a.h"
== src/a.h
#define A 1
== i0/a.h
#define A 2
"#,
    ),
    (
        "include_next of an absolute name",
        r#"
== k.cu
#include <a.h>
== i0/a.h
#include_next "$ROOT/i2/b.h"
== i2/b.h
#define A 2
"#,
    ),
    (
        "include_next to nowhere",
        r#"
!! fails
== k.cu
#include <a.h>
== i2/a.h
#include_next <a.h>
"#,
    ),
    (
        "has_include, yes and no",
        r#"
!! asks src/a.h i1/s/b.h
!! conditional
== k.cu
#if __has_include("a.h") && !__has_include(<a.h>) && __has_include(<s/b.h>) && !__has_include(<nowhere.h>)
#define A 1
#else
#define A 2
#endif
== src/a.h
== i1/s/b.h
"#,
    ),
    (
        "has_include, of directories and nested",
        r#"
!! asks src/s/b.h src/c.h
!! conditional
!! directory i0/d
== k.cu
#include "s/a.h"
== src/s/a.h
#if __has_include(<d>)
#define A 1
#elif __has_include("b.h") and __has_include ( /* there */ "../c.h" )and 1
#define A 2
#endif
== src/s/b.h
== src/c.h
"#,
    ),
    (
        "has_include is asked about",
        r#"
!! conditional
== k.cu
#ifdef __has_include
#if defined(__has_include) && defined __has_include && __has_\
include("a\
.h")
#include "a.h"
#endif
#endif
== src/a.h
#define A __LINE__
"#,
    ),
    (
        "has_include in the text",
        r#"
!! asks src/a.h
!! conditional
== k.cu
#define ASK(x) x
enum { A = ASK(__has_include("a.h")) + 2 * __has_include(<b.h>) };
== src/a.h
"#,
    ),
    (
        "has_include of an absolute name",
        r#"
!! conditional
== k.cu
#define A (__has_include("$ROOT/x/a.h") + 2 * __has_include("$ROOT/x/b.h"))
!! refused __has_include in the definition
== x/a.h
"#,
    ),
    (
        "has_include of absolute names",
        r#"
!! asks x/a.h
!! conditional
== k.cu
#if __has_include("$ROOT/x/a.h") && !__has_include(<$ROOT/x/b.h>)
#define A 1
#else
#define A 2
#endif
== x/a.h
"#,
    ),
    (
        "has_include of a given header",
        r#"
!! conditional
== k.cu
#if __has_include("q.h") && __has_include(<q.h>)
#define A 1
#else
#define A 2
#endif
== q.h given
"#,
    ),
    (
        "has_include of a macro",
        r#"
!! refused does not name a header
== k.cu
#define HEADER "a.h"
#if __has_include(HEADER)
#endif
"#,
    ),
    (
        "has_include behind a macro",
        r#"
!! conditional
!! asks i1/s/b.h src/c.h
== k.cu
#include "has.h"
#if _OUR_HAS_INCLUDE(<s/b.h>) && !_OUR_HAS_INCLUDE(<nowhere.h>) && _OUR_HAS_INCLUDE( "c.h" )
#define A 1
#else
#define A 2
#endif
== src/has.h
#ifdef __has_include
#define _OUR_HAS_INCLUDE(_X) __has_include(_X)
#else
#define _OUR_HAS_INCLUDE(_X) 0
#endif
== i1/s/b.h
== src/c.h
"#,
    ),
    (
        "has_include behind a macro, and what is not there from elsewhere",
        r#"
!! conditional
!! asks src/c.h
== k.cu
#define HAS_INCLUDE(x) (__has_include(x))
#if HAS_INCLUDE("c.h")
#include <d.h>
#endif
== src/c.h
#error
== i0/d.h
#if 0
#include <c.h>
#endif
#define A 2
"#,
    ),
    (
        "has_include behind a macro, given another macro",
        r#"
!! refused line 3, has a __has_include that does not name
== k.cu
#define HAS_INCLUDE(x) __has_include(x)
#define HEADER "a.h"
#if HAS_INCLUDE(HEADER)
#endif
"#,
    ),
    (
        "has_include behind a macro, there from one place only",
        r#"
!! refused is found from one file and not from another
== k.cu
#include <a.h>
#if HAS_INCLUDE("c.h")
#endif
== src/c.h
== i0/a.h
#define HAS_INCLUDE(x) __has_include(x)
#if HAS_INCLUDE("c.h")
#endif
"#,
    ),
    (
        "has_include behind a macro that we do not look for",
        r#"
!! refused in the definition of a macro
== k.cu
#define THERE(x) __has_include(x)
#if THERE("c.h")
#endif
"#,
    ),
    (
        "has_include pasted",
        r#"
!! refused could be pasted
== k.cu
#define CAT(a, b) a##b
#if CAT(__has_, include)("/etc/hostname")
#define A 1
#else
#define A 2
#endif
"#,
    ),
    (
        "raw strings",
        r##"
== k.cu
#include "a.h"
#define SKIP(x)
SKIP(R"(
#include "nowhere.h"
)")
SKIP(u8R"x(
)"
#include "nowhere.h"
#define A 5
)x")
SKIP(LR"--(" /* )--")
#define B 4 /* */
SKIP(notR"(" /*)
#include "nowhere.h"
*/)
== src/a.h
#define A (B + 1)
"##,
    ),
    (
        "raw strings in a skipped branch",
        r##"
== k.cu
#if 0
const char *text = R"(
#endif
#include "nowhere.h"
)";
#endif
#include "a.h"
== src/a.h
#define A 1
"##,
    ),
    (
        "strings and characters",
        r#"
== k.cu
#define SKIP(x)
SKIP("/*" '"' L'\'' "\"" u8"//" "\\")
#include "a.h"
SKIP("*/ \
#include <nowhere.h>")
== src/a.h
#define A 1
"#,
    ),
    (
        "separated digits",
        r#"
== k.cu
enum { MANY = 1'000'000, HEX = 0xA'b, MORE = 1'0 }; // it's
#include "a.h"
/* ' */
== src/a.h
#define A MANY
"#,
    ),
    (
        "separated digits before a comment",
        r#"
!! refused a digit separator
== k.cu
#define A 1'0 /* '
*/
"#,
    ),
    (
        "a raw string behind another",
        r##"
!! refused a raw string that not all compilers read alike
== k.cu
#define SKIP(x)
SKIP("x"R"(
#include "nowhere.h"
)")
#define A 1
"##,
    ),
    (
        "comments",
        r#"
== k.cu
/* #include "nowhere.h" */
// #include "nowhere.h"
// spliced \
#include "nowhere.h"
/*
#include "nowhere.h"
*/ #include "a.h" /* more
#include "nowhere.h" */
/**/ # /**/ include /* x
*/ <b.h> // y
== src/a.h
#define B 3
== i0/b.h
#define A (B + __LINE__)
"#,
    ),
    (
        "a directive begins its line",
        r#"
== k.cu
#define SKIP(x)
#define HASH(x) #x
SKIP(/*
*/ HASH(#include "nowhere.h"))
  #  include "a.h"
== src/a.h
#define A 1
"#,
    ),
    (
        "splices",
        r#"
== k.cu
#in\
clu\
de "a\
.h"
#\
define B \
  __LINE__
#include \
  <b.h>
== src/a.h
#define A (B * 2)
== i1/b.h
"#,
    ),
    (
        "a blank behind a backslash splices nothing",
        "
== k.cu
// \\ \n#include \"a.h\"
== src/a.h
#define A 1
",
    ),
    (
        "digraphs",
        r#"
== k.cu
%:include "a.h"
%: include <b.h>
??=include "nowhere.h"
== src/a.h
#define A 1
== i0/b.h
!! fails
"#,
    ),
    (
        "carriage returns",
        r#"
== k.cu
#include "a.h"^M
#include \^M
<b.h>^M
// \^M
#include "nowhere.h"^M
== src/a.h
#define B 1^M
== i0/b.h
#define A \^M
B^M
"#,
    ),
    (
        "a lone carriage return ends no line",
        r#"
== k.cu
// x^M#include "nowhere.h"
#include "a.h"
== src/a.h
#define A 1
"#,
    ),
    (
        "other white space",
        "
== k.cu
 \x0B\x0C#\x0Binclude\x0C\"a.h\"\t
== src/a.h
#define A 1
",
    ),
    (
        "no newline at the end",
        r#"
== k.cu
#include "a.h"
#include "b.h"
== src/a.h
#include "c.h"^D
== src/b.h
#define A C^D
== src/c.h
#define C 3^D
"#,
    ),
    (
        "absolute",
        r#"
== k.cu
#include "$ROOT/x/a.h"
#include <$ROOT/x/c.h>
== x/a.h
#include "b.h"
== x/b.h
#define A C
== x/c.h
#define C 2
"#,
    ),
    (
        "absolute and not there",
        r#"
!! conditional
== k.cu
#if 0
#include "$ROOT/x/nowhere.h"
#include </nowhere/"a.h>
#endif
#define A 3
"#,
    ),
    (
        "upwards",
        r#"
== k.cu
#include "../x/a.h"
#include <../x/s/../c.h>
== x/a.h
#include "../x/b.h"
== x/b.h
#define A C
== x/c.h
#define C 2
== x/s/none.h
"#,
    ),
    (
        "a linked header",
        r#"
!! link ../x/a.h src/a.h
!! link ../x i0
== k.cu
#include "a.h"
#include <c.h>
== src/b.h
#define A C
== x/a.h
#include "b.h"
== x/b.h
#error
== x/c.h
#define C 2
!! includes x
"#,
    ),
    (
        "links that lead nowhere",
        r#"
!! link nowhere.h i0/a.h
!! link b.h i0/b.h
== k.cu
#include <a.h>
#include <b.h>
== i1/a.h
#define A B
== i1/b.h
#define B 2
"#,
    ),
    (
        "directories in the way",
        r#"
!! directory i0/a.h
!! directory src/a.h
== k.cu
#include "a.h"
== i1/a.h
#define A 2
"#,
    ),
    (
        "files in the way",
        r#"
== k.cu
#include <s/a.h>
== i0/s
== i1/s/a.h
#define A 2
"#,
    ),
    (
        "include directories that are none",
        r#"
!! includes i0 i0/a.h/none i0
== k.cu
#include <a.h>
== i0/a.h
#define A 2
"#,
    ),
    (
        "one name in three directories",
        r#"
== k.cu
#include "a.h"
#include <a.h>
#include <b.h>
== src/a.h
#define A1 1
== i0/a.h
#define A2 2
== i1/a.h
#define A3 3
== i1/b.h
#include "a.h"
#define A (A1 + 10 * A2 + 100 * A3)
"#,
    ),
    (
        "odd names",
        r#"
== k.cu
#include "a b/ü~.h"
#include <c'd.h>
#include "x\y.h"
#include <"q".h>
== src/a b/ü~.h
#define A 1
== i0/c'd.h
== src/x\y.h
== i1/"q".h
"#,
    ),
    (
        "names with blanks",
        r#"
!! fails
== k.cu
#include < a.h >
== i0/a.h
#define A 1
"#,
    ),
    (
        "more behind the name",
        r#"
== k.cu
#include "a.h" junk
#include <b.h> HEADER
== src/a.h
#define B 1
== i0/b.h
#define A B
"#,
    ),
    (
        "given headers go first, from everywhere",
        r#"
== k.cu
#include "a.h"
#include <b.h>
== src/a.h
#define A 1
== i0/b.h
#include "a.h"
== a.h given
#pragma once
#include "c.h"
enum { A = C };
== i1/c.h
#define C 8
"#,
    ),
    (
        "a given header that a macro names",
        r#"
!! untold
== k.cu
#define HEADER <q.h>
#include HEADER
== q.h given
#define A 5
"#,
    ),
    (
        "a given header of an absolute name",
        r#"
== k.cu
#include "/nowhere/q.h"
== /nowhere/q.h given
#define A 5
"#,
    ),
    (
        "given headers go before the next",
        r#"
== k.cu
#include <a.h>
== i0/a.h
#include_next <b.h>
== i1/b.h
#define A 5
== b.h given
#define A 6
"#,
    ),
    (
        "a header that is not there",
        r#"
!! fails
== k.cu
#include "nowhere.h"
"#,
    ),
    (
        "a comment that does not end",
        r#"
!! fails
== k.cu
#include "a.h"
/* #include "b.h"
== src/a.h
#define A 1
== src/b.h
"#,
    ),
    (
        "what NVRTC does not know",
        r#"
!! fails
== k.cu
#import "a.h"
== src/a.h
#define A 1
"#,
    ),
];
