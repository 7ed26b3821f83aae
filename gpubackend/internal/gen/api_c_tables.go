// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"sort"
	"strings"
)

// allSymbols is every symbol of versions.tsv.
func (a *api) allSymbols() []string {
	m := map[string]bool{}
	for _, v := range a.versions {
		for _, list := range [][]versioned{v.legacy, v.perThread} {
			for _, s := range list {
				m[s.symbol] = true
			}
		}
	}
	return sortedKeys(m)
}

// stubsC writes the functions that aren't implemented: each says so once and returns
// CUDA_ERROR_NOT_SUPPORTED.
func stubsC(a *api) []byte {
	b := cFile("The functions that aren't there: each says so once.", "base/state.h",
		"exports/unsupported.h")
	b.WriteString("/* Callers pass arguments that aren't looked at, " +
		"which the calling convention allows. */\n")
	b.WriteString(`#define STUB(name)                                \
	EXPORT CUresult name(void);               \
	EXPORT CUresult name(void)                \
	{                                         \
		static int said;                  \
		return unsupported(#name, &said); \
	}

`)
	described, variants := a.described(), a.variants()
	for _, s := range a.allSymbols() {
		base, variant := variants[s]
		_, ok := described[s]
		if !ok && variant {
			_, ok = described[base]
		}
		if !ok && a.old[s] == "" {
			fmt.Fprintf(b, "STUB(%s)\n", s)
		}
	}
	return b.Bytes()
}

// procsC writes the table of cuGetProcAddress.
func procsC(a *api) []byte {
	b := cFile("What cuGetProcAddress gives, by name and version.", "exports/procaddress.h")
	b.WriteString("/* Only their addresses are taken: the parameters don't matter here. */\n" +
		"#define SYMBOL(name) void name(void)\n")
	for _, s := range a.allSymbols() {
		fmt.Fprintf(b, "SYMBOL(%s);\n", s)
	}
	b.WriteString("\n#define VERSIONS(...) " +
		"(const struct proc_version[]){ __VA_ARGS__ { 0, 0 } }\n\n" +
		"const struct proc procs[] = {\n")
	sorted := append([]baseName(nil), a.versions...)
	sort.Slice(sorted, func(i, j int) bool { return sorted[i].name < sorted[j].name })
	for _, v := range sorted {
		fmt.Fprintf(b, "\t{ \"%s\", %s, %s },\n", v.name, versionList(v.legacy),
			versionList(v.perThread))
	}
	b.WriteString("};\n\nconst unsigned procs_count = sizeof(procs) / sizeof(procs[0]);\n")
	return b.Bytes()
}

func versionList(list []versioned) string {
	if len(list) == 0 {
		return "0"
	}
	var s strings.Builder
	for _, v := range list {
		fmt.Fprintf(&s, "{ %d, %s }, ", v.version, v.symbol)
	}
	return "VERSIONS(" + s.String() + ")"
}

// errorsC writes the names and texts of the errors, ascending by number.
func errorsC(path string) []byte {
	b := cFile("Names and texts of the errors.", "exports/errors.h")
	b.WriteString("const struct error_text error_texts[] = {\n")
	n := 0
	err := eachLine(path, func(line string) error {
		f := strings.Split(line, "\t")
		if len(f) != 3 && len(f) != 4 {
			return fmt.Errorf("want number, name, text and perhaps a version: %q", line)
		}
		n++
		fmt.Fprintf(b, "\t{ %s, \"%s\", \"%s\" },\n", f[0], f[1], f[2])
		return nil
	})
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(b, "};\n\nconst unsigned error_texts_count = %d;\n", n)
	return b.Bytes()
}
