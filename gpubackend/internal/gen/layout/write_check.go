// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"bytes"
	"fmt"
)

// oldest is the CUDA_VERSION whose header has all that is described without a version.
const oldest = 12040

// CheckProgram is a C program that compares the description with the header that it is compiled
// with. Before it comes a header that defines HAVE_NAME for each name in cuda.h
// (tests/layout/check).
func (d *Description) CheckProgram() []byte {
	b := &bytes.Buffer{}
	fmt.Fprintf(b, "/* SPDX-License-Identifier: Apache-2.0 */\n/* %s */\n", generated)
	b.WriteString("/* Compares CUDA's layout as described with that of a cuda.h: " +
		"tests/layout/check says how it is built. */\n")
	fmt.Fprintf(b,
		"#include \"layout.h\"\n\n#if CUDA_VERSION < %d\n"+
			"int main(void) { return too_old(%[1]d); }\n#else\n", oldest)
	for _, s := range d.structs {
		fmt.Fprintf(b, "\nstatic void check_%s(void)\n{\n", s.name)
		fmt.Fprintf(b, "#if defined(HAVE_%s) && CUDA_VERSION >= %d\n", s.name, max(s.since, oldest))
		fmt.Fprintf(b, "\tsize(\"%s\", sizeof(%[1]s), %d);\n", s.name, s.size)
		for _, f := range s.fields {
			checkField(b, s, f)
		}
		fmt.Fprintf(b, "#else\n\tmissing(\"%s\", %d);\n#endif\n}\n", s.name, max(s.since, oldest))
	}
	b.WriteString("\nstatic void check_values(void)\n{\n")
	for _, g := range d.groups {
		if g.prefix == "" {
			continue
		}
		for _, v := range g.values {
			checkValue(b, g.prefix+v.name, v.number, v.since)
		}
	}
	for _, r := range d.results {
		checkValue(b, r.name, fmt.Sprint(r.number), r.since)
	}
	b.WriteString("}\n\nint main(void)\n{\n")
	for _, s := range d.structs {
		fmt.Fprintf(b, "\tcheck_%s();\n", s.name)
	}
	b.WriteString("\tcheck_values();\n\treturn verdict();\n}\n#endif\n")
	return b.Bytes()
}

func checkField(b *bytes.Buffer, s *structure, f *field) {
	if f.since > s.since {
		fmt.Fprintf(b, "#if CUDA_VERSION >= %d\n", f.since)
		defer fmt.Fprintf(b, "#else\n\tmissing(\"%s.%s\", %d);\n#endif\n", s.name, f.path, f.since)
	}
	fmt.Fprintf(b, "\tFIELD(%s, %s, %d, %d);\n", s.name, f.path, f.offset, f.bytes())
}

func checkValue(b *bytes.Buffer, name, number string, since int) {
	fmt.Fprintf(b, "#ifdef HAVE_%s\n\tvalue(\"%[1]s\", (long long)%[1]s, %s);\n", name, number)
	fmt.Fprintf(b, "#else\n\tmissing(\"%s\", %d);\n#endif\n", name, max(since, oldest))
}
