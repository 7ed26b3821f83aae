// SPDX-License-Identifier: Apache-2.0

package savedvm

import (
	"fmt"
	"io"
	"sort"

	"github.com/paracuda/paracuda/gpubackend/overlap"
	"github.com/paracuda/paracuda/gpubackend/record"
)

// MaxParts bounds in how many parts a program's memory may be, as one process reads them.
const MaxParts = 4 << 20

// memory is a program's memory as a record in a file has it.
type memory struct {
	own       *record.Content
	unchanged unchanged
	before    *memory     // the program's in the record before; nil: it has none
	early     *areaMemory // the program's in the area; nil: it has none
	bytes     uint64      // of all of it
	parts     int         // in which it is, at most
}

// newMemory is the memory of a program whose record has own bytes, and says which others are in the
// record before, or in the area.
func newMemory(
	own *record.Content, u unchanged, before *memory, early *areaMemory,
) (*memory, error) {
	m := &memory{own, u, before, early, own.Bytes(), 1}
	if len(u.runs) == 0 {
		return m, nil
	}
	if u.own != own.Bytes() {
		return nil, fmt.Errorf("%w has %d bytes of memory that has changed, not %d", ErrSaved,
			own.Bytes(), u.own)
	}
	m.bytes += u.all()
	if m.parts = 2 * len(u.runs); before != nil {
		m.parts += before.parts
	}
	if early != nil {
		m.parts++
	}
	if m.parts > MaxParts {
		return nil, fmt.Errorf("%w has memory in more than %d parts", ErrSaved, MaxParts)
	}
	return m, nil
}

// bytesOf is how much memory a program has in the record before.
func bytesOf(before *memory) uint64 {
	if before == nil {
		return 0
	}
	return before.bytes
}

// merged is a program's whole memory, in the order in which its worker wrote it, as parts of a
// file's records.
type merged struct {
	parts []located
	bytes uint64
}

// located says where a part is.
type located struct {
	at   uint64 // in the program's memory
	from uint64 // in the section
	in   content
}

// content is memory in a file, in stretches that are read as a whole. It is compared by identity.
type content interface {
	// StretchOf is the number of the stretch with an offset, and how many bytes follow there.
	StretchOf(offset uint64) (number, bytes uint64)
	// Read reads parts of one stretch, whose checksum was compared.
	Read(parts []record.Excerpt) error
}

// merged finds where all of it is.
func (m *memory) merged() *merged {
	all := &merged{}
	if len(m.unchanged.runs) == 0 {
		all.add(m.own, 0, m.own.Bytes())
		return all
	}
	before, used := &merged{}, uint64(0)
	if m.before != nil {
		before = m.before.merged()
	}
	for _, r := range m.unchanged.runs {
		if r.where() == inArea {
			all.add(m.early, r.at(), r.Same)
		} else {
			before.each(r.at(), r.Same, all.add)
		}
		all.add(m.own, used, r.Own)
		used += r.Own
	}
	return all
}

// add adds the next part.
func (m *merged) add(in content, from, bytes uint64) {
	if bytes == 0 {
		return
	}
	if n := len(m.parts) - 1; n < 0 || m.parts[n].in != in ||
		m.parts[n].from+m.bytes-m.parts[n].at != from {
		m.parts = append(m.parts, located{m.bytes, from, in})
	}
	m.bytes += bytes
}

// find returns the number of the part with an offset of the memory.
func (m *merged) find(offset uint64) int {
	return sort.Search(len(m.parts), func(i int) bool { return m.parts[i].at > offset }) - 1
}

// end is where a part ends, in the memory.
func (m *merged) end(i int) uint64 {
	if i+1 < len(m.parts) {
		return m.parts[i+1].at
	}
	return m.bytes
}

// each calls f for each place of a range of the memory.
func (m *merged) each(offset, bytes uint64, f func(in content, from, bytes uint64)) {
	if bytes == 0 {
		return
	}
	for i := m.find(offset); bytes > 0; i++ {
		p := m.parts[i]
		n := min(bytes, m.end(i)-offset)
		f(p.in, p.from+offset-p.at, n)
		offset, bytes = offset+n, bytes-n
	}
}

// reader reads all of it, from many places at the same time if much is asked for.
func (m *merged) reader() io.Reader { return &mergedReader{of: m} }

type mergedReader struct {
	of   *merged
	part int
	at   uint64 // in the memory
}

// stretchRead is what is to be read of a stretch of a record.
type stretchRead struct {
	in     content
	number uint64 // of the stretch
	parts  []record.Excerpt
}

// Read implements io.Reader. It fills p if there is as much.
func (r *mergedReader) Read(p []byte) (n int, err error) {
	list, n := r.next(p)
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	err = overlap.Each(len(list), func(i int) error { return list[i].in.Read(list[i].parts) })
	if err != nil {
		return 0, err
	}
	return n, nil
}

// next finds what is to be read to fill p. What is in the same stretch is read together.
func (r *mergedReader) next(p []byte) (list []stretchRead, n int) {
	last := map[content]int{} // the last read from each
	for n < len(p) && r.at < r.of.bytes {
		x, end := r.of.parts[r.part], r.of.end(r.part)
		offset := x.from + r.at - x.at
		number, left := x.in.StretchOf(offset)
		k := int(min(uint64(len(p)-n), end-r.at, left))
		i, ok := last[x.in]
		if !ok || list[i].number != number {
			i = len(list)
			list, last[x.in] = append(list, stretchRead{in: x.in, number: number}), i
		}
		list[i].parts = append(list[i].parts, record.Excerpt{Offset: offset, To: p[n : n+k]})
		n, r.at = n+k, r.at+uint64(k)
		if r.at == end {
			r.part++
		}
	}
	return list, n
}
