// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"strings"
)

// recordC writes a record's structure, its size, and the functions that write and read it.
func recordC(b *bytes.Buffer, l layout) {
	docLines(b, l.doc)
	fields := l.fields
	if len(fields) == 0 {
		fields = []field{{typ: "u64", name: "nothing"}}
	}
	structC(b, l.name, fields)
	if l.tagged {
		fmt.Fprintf(b, "#define %s_TAG %d\n", upper(l.name), l.tag)
	}
	recordBytesC(b, l)
	recordWriteC(b, l)
	recordReadC(b, l)
}

func upper(s string) string { return string(bytes.ToUpper([]byte(s))) }

// padC is the size of all tails before one, from the end of a record's words; each begins at a
// multiple of 8.
func padC(tails []field, access string) string {
	sum := ""
	for _, f := range tails {
		sum += fmt.Sprintf(" + (((size_t)%s + 7) & ~(size_t)7)", f.cBytes(access))
	}
	return sum
}

func recordBytesC(b *bytes.Buffer, l layout) {
	var faults []string
	for _, f := range l.fields {
		faults = append(faults, f.cFaults("n->"+f.name)...)
	}
	about := ""
	if len(faults) > 0 {
		about = "; 0 when it says what may not be said"
	}
	fmt.Fprintf(b,
		"\n/* The size of the record%s. */\nstatic inline size_t %s_bytes(const struct %s *n)\n{\n",
		about, l.name, l.name)
	if len(faults) > 0 {
		fmt.Fprintf(b, "\tif (%s)\n\t\treturn 0;\n", strings.Join(faults, " || "))
	}
	tails := l.tails()
	if len(tails) == 0 {
		if len(faults) == 0 {
			b.WriteString("\t(void)n;\n")
		}
		fmt.Fprintf(b, "\treturn %d;\n}\n", 8*l.words())
		return
	}
	last := tails[len(tails)-1]
	fmt.Fprintf(b, "\treturn %d%s + %s;\n}\n", 8*l.words(), padC(tails[:len(tails)-1], "n->"),
		last.cBytes("n->"))
}

func recordWriteC(b *bytes.Buffer, l layout) {
	tails, left := l.tails(), ""
	if len(tails) > 0 {
		left = ", but for tails that are NULL: these point to their places afterwards"
	}
	fmt.Fprintf(b, "\n/* Writes a record that has a size%s. */\n", left)
	fmt.Fprintf(b, "static inline void %s_write(struct %s *n, uint64_t *word)\n{\n", l.name, l.name)
	if len(l.fields) == 0 {
		b.WriteString("\t(void)n;\n")
	}
	if len(tails) > 0 {
		fmt.Fprintf(b, "\tuint8_t *tail = (uint8_t *)&word[%d];\n\n", l.words())
	}
	if l.tagged {
		fmt.Fprintf(b, "\tword[0] = %s_TAG;\n", upper(l.name))
	}
	for i := 0; i < len(l.fields); i++ {
		f := l.fields[i]
		x := "n->" + f.name
		switch {
		case f.typ == "tail":
		case f.typ == "u32":
			i++
			y := "n->" + l.fields[i].name
			fmt.Fprintf(b, "\tword[%d] = %s | (uint64_t)%s << 32;\n", f.word, x, y)
		case f.count > 0:
			fmt.Fprintf(b, "\tmemcpy(&word[%d], %s, %d);\n", f.word, x, 8*f.words())
		default:
			fmt.Fprintf(b, "\tword[%d] = %s;\n", f.word, x)
		}
	}
	for i, f := range tails {
		x := "n->" + f.name
		fmt.Fprintf(b, "\tif (%s)\n\t\tmemcpy(tail, %s, %s);\n\telse\n\t\t%s = tail;\n", x, x,
			f.cBytes("n->"), x)
		if i < len(tails)-1 {
			fmt.Fprintf(b, "\ttail += ((size_t)%s + 7) & ~(size_t)7;\n", f.cBytes("n->"))
		}
	}
	b.WriteString("}\n")
}

func recordReadC(b *bytes.Buffer, l layout) {
	fmt.Fprintf(b,
		"\n/* Reads a record of so many bytes; "+
			"false when it isn't one. Tails stay where they are. */\n")
	fmt.Fprintf(b,
		"static inline bool %s_read(struct %s *n, const uint64_t *word, size_t bytes)\n{\n", l.name,
		l.name)
	tails := l.tails()
	if len(l.fields) == 0 {
		b.WriteString("\t(void)n;\n")
	}
	if len(tails) > 0 {
		fmt.Fprintf(b, "\tconst uint8_t *tail = (const uint8_t *)&word[%d];\n\n", l.words())
	}
	fmt.Fprintf(b, "\tif (bytes < %d)\n\t\treturn false;\n", 8*l.words())
	if l.tagged {
		fmt.Fprintf(b, "\tif (word[0] != %s_TAG)\n\t\treturn false;\n", upper(l.name))
	}
	readsC(b, l.fields, "n->")
	fmt.Fprintf(b, "\tif (!%s_bytes(n) || bytes < %s_bytes(n))\n\t\treturn false;\n", l.name,
		l.name)
	for i, f := range tails {
		fmt.Fprintf(b, "\tn->%s = tail;\n", f.name)
		if i < len(tails)-1 {
			fmt.Fprintf(b, "\ttail += ((size_t)%s + 7) & ~(size_t)7;\n", f.cBytes("n->"))
		}
	}
	b.WriteString("\treturn true;\n}\n")
}
