// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"bytes"
	"fmt"
	"sort"
	"strings"
)

// member is a field in C, or a structure or union without a type of its own around some.
type member struct {
	name    string // "" for an anonymous union
	field   *field
	members []member
	at, end int
}

// CHeader declares the structures, and includes CValues. The handles are declared before it.
func (d *Description) CHeader() []byte {
	b := cHeader("LAYOUT", "CUDA's structures, and its numbers. "+
		"What includes this has declared the handles before.")
	b.WriteString("\n#include \"zz_generated_cuda_values.h\"\n")
	d.writeStructs(b, everything)
	return cEnd(b)
}

// CValues declares the numbers and results, for what needs no structures.
func (d *Description) CValues() []byte {
	b := cHeader("VALUES", "CUDA's numbers.")
	d.writeValues(b, everything)
	return cEnd(b)
}

func everything(bool) bool { return true }

// CHostHeader declares the part of that which the host's own C needs. Handles are numbers there.
func (d *Description) CHostHeader() []byte {
	b := cHeader("LAYOUT", "What the host's C needs of CUDA's structures and numbers.")
	b.WriteString("\ntypedef uint64_t CUdeviceptr;\n")
	for _, name := range d.order {
		fmt.Fprintf(b, "typedef uint64_t %s;\n", name)
	}
	ofHost := func(host bool) bool { return host }
	d.writeStructs(b, ofHost)
	d.writeValues(b, ofHost)
	return cEnd(b)
}

func cHeader(name, doc string) *bytes.Buffer {
	b := &bytes.Buffer{}
	fmt.Fprintf(b, "/* SPDX-License-Identifier: Apache-2.0 */\n/* %s */\n/* %s */\n", generated,
		doc)
	fmt.Fprintf(b, "#ifndef PARACUDA_CUDA_%s_H\n#define PARACUDA_CUDA_%[1]s_H\n", name)
	if name == "LAYOUT" {
		b.WriteString("\n#include <stddef.h>\n#include <stdint.h>\n")
	}
	return b
}

func cEnd(b *bytes.Buffer) []byte {
	b.WriteString("\n#endif\n")
	return b.Bytes()
}

// writeStructs declares the structures that are wanted.
func (d *Description) writeStructs(b *bytes.Buffer, wanted func(host bool) bool) {
	for _, s := range d.structs {
		if !wanted(s.host) {
			continue
		}
		b.WriteString("\ntypedef struct {\n")
		writeMembers(b, "\t", tree(s.fields, 0, ""), 0, s.size, s.align())
		fmt.Fprintf(b, "} %s;\n_Static_assert(sizeof(%[1]s) == %d, \"%[1]s\");\n", s.name, s.size)
		for _, f := range s.fields {
			fmt.Fprintf(b, "_Static_assert(offsetof(%s, %s) == %d, \"%[1]s.%[2]s\");\n", s.name,
				f.path, f.offset)
		}
	}
}

// writeValues declares the numbers that are wanted, and all results.
func (d *Description) writeValues(b *bytes.Buffer, wanted func(host bool) bool) {
	for _, g := range d.groups {
		if !wanted(g.host) {
			continue
		}
		b.WriteString("\nenum {\n")
		for _, v := range g.values {
			fmt.Fprintf(b, "\t%s = %s,\n", g.c(v), v.number)
		}
		b.WriteString("};\n")
	}
	b.WriteString("\nenum {\n")
	for _, r := range d.results {
		fmt.Fprintf(b, "\t%s = %d,\n", r.name, r.number)
	}
	b.WriteString("};\n")
}

// c is the name of a number in C.
func (g *group) c(v value) string {
	if g.prefix == "" {
		return "CUDA_" + v.name
	}
	return g.prefix + v.name
}

// tree groups fields by the structures around them, and those that overlap as unions. level is how
// many names at the beginning of their paths are the same for all.
func tree(fields []*field, level int, prefix string) []member {
	var list []member
	for i := 0; i < len(fields); {
		f := fields[i]
		parts := strings.Split(f.path, ".")
		n := i + 1
		if len(parts)-1 == level {
			list = append(list, member{name: parts[level], field: f, at: f.offset, end: f.end()})
		} else {
			around := prefix + parts[level] + "."
			for n < len(fields) && strings.HasPrefix(fields[n].path, around) {
				n++
			}
			list = append(list, enclosing(parts[level], tree(fields[i:n], level+1, around)))
		}
		i = n
	}
	return unions(list)
}

func enclosing(name string, members []member) member {
	m := member{name: name, members: members, at: members[0].at, end: members[0].end}
	for _, x := range members {
		m.at, m.end = min(m.at, x.at), max(m.end, x.end)
	}
	return m
}

// unions puts members that overlap into anonymous unions. A member of a union may be a structure
// without a name.
func unions(list []member) []member {
	sort.SliceStable(list, func(i, j int) bool { return list[i].at < list[j].at })
	var out []member
	for i := 0; i < len(list); {
		end, n := list[i].end, i+1
		for n < len(list) && list[n].at < end {
			end = max(end, list[n].end)
			n++
		}
		if n == i+1 {
			out = append(out, list[i])
		} else {
			out = append(out, enclosing("", list[i:n]))
		}
		i = n
	}
	return out
}

// writeMembers writes a structure's members, with padding where the compiler wouldn't add it.
func writeMembers(b *bytes.Buffer, tab string, list []member, at, size, align int) {
	for _, m := range list {
		natural := (at + m.align() - 1) / m.align() * m.align()
		if natural != m.at {
			fmt.Fprintf(b, "%suint8_t pad_%d[%d];\n", tab, at, m.at-at)
		}
		m.write(b, tab)
		at = m.end
	}
	if natural := (at + align - 1) / align * align; natural != size {
		fmt.Fprintf(b, "%suint8_t pad_%d[%d];\n", tab, at, size-at)
	}
}

func (m member) align() int {
	if m.field != nil {
		return m.field.typ.align
	}
	align := 1
	for _, x := range m.members {
		align = max(align, x.align())
	}
	return align
}

func (m member) write(b *bytes.Buffer, tab string) {
	switch {
	case m.field != nil:
		c := m.field.typ.c
		if !strings.HasSuffix(c, "*") {
			c += " "
		}
		fmt.Fprintf(b, "%s%s%s", tab, c, m.name)
		if m.field.count > 0 {
			fmt.Fprintf(b, "[%d]", m.field.count)
		}
		b.WriteString(";\n")
	case m.name == "":
		fmt.Fprintf(b, "%sunion {\n", tab)
		for _, x := range m.members {
			m.writeAlternative(b, tab+"\t", x)
		}
		fmt.Fprintf(b, "%s};\n", tab)
	default:
		kind, body := "struct", &bytes.Buffer{}
		if len(m.members) == 1 && m.members[0].name == "" {
			kind = "union"
			for _, x := range m.members[0].members {
				m.members[0].writeAlternative(body, tab+"\t", x)
			}
		} else {
			// Padding after the last member belongs to the enclosing structure.
			align := m.align()
			writeMembers(body, tab+"\t", m.members, m.at, (m.end+align-1)/align*align, align)
		}
		fmt.Fprintf(b, "%s%s {\n%s%s} %s;\n", tab, kind, body, tab, m.name)
	}
}

// writeAlternative writes a member of a union, with padding before it where it begins later than
// the others.
func (m member) writeAlternative(b *bytes.Buffer, tab string, x member) {
	if x.at == m.at {
		x.write(b, tab)
		return
	}
	fmt.Fprintf(b, "%sstruct {\n", tab)
	fmt.Fprintf(b, "%s\tuint8_t pad_%d[%d];\n", tab, m.at, x.at-m.at)
	x.write(b, tab+"\t")
	fmt.Fprintf(b, "%s};\n", tab)
}
