// SPDX-License-Identifier: Apache-2.0

package virtqueuetest

import "errors"

// ErrMalformed is what the oracle says of a chain that a device must reject.
var ErrMalformed = errors.New("malformed chain")

// Buffer is a buffer of a chain as the oracle sees it.
type Buffer struct {
	Addr  uint64
	Len   uint32
	Write bool
}

// Rules are what the oracle must know of a queue.
type Rules struct {
	Size     int
	Desc     uint64 // address of the descriptor table
	Indirect bool   // the feature was negotiated
	MaxChain int
}

// Oracle walks a chain slowly: it lists every descriptor first, and judges the list afterwards.
func (g *Guest) Oracle(r Rules, head uint16) ([]Buffer, error) {
	list, err := g.list(r, head)
	if err != nil {
		return nil, err
	}
	if len(list) > r.MaxChain {
		return nil, ErrMalformed
	}
	var buffers []Buffer
	var total uint64
	for i, d := range list {
		write := d.Flags&Write != 0
		if i > 0 && list[i-1].Flags&Write != 0 && !write {
			return nil, ErrMalformed
		}
		if d.Len == 0 {
			continue
		}
		if !g.holds(d.Addr, uint64(d.Len)) {
			return nil, ErrMalformed
		}
		total += uint64(d.Len)
		buffers = append(buffers, Buffer{d.Addr, d.Len, write})
	}
	if total >= 1<<32 {
		return nil, ErrMalformed
	}
	return buffers, nil
}

// list returns the descriptors of a chain, and stops one past the limit.
func (g *Guest) list(r Rules, head uint16) ([]Desc, error) {
	var list []Desc
	read := func(i uint16) Desc { return g.desc(r.Desc + 16*uint64(i)) }
	entries, inside := r.Size, false
	for i := head; len(list) <= r.MaxChain; {
		d := read(i)
		if d.Flags&Indirect != 0 {
			n := int(d.Len / 16)
			if inside || !r.Indirect || d.Flags&Next != 0 ||
				d.Len%16 != 0 || n == 0 || n > r.MaxChain || !g.holds(d.Addr, uint64(d.Len)) {
				return nil, ErrMalformed
			}
			read = func(i uint16) Desc { return g.desc(d.Addr + 16*uint64(i)) }
			entries, inside, i = n, true, 0
			continue
		}
		list = append(list, d)
		if d.Flags&Next == 0 {
			return list, nil
		}
		if int(d.Next) >= entries {
			return nil, ErrMalformed
		}
		i = d.Next
	}
	return list, nil
}

// holds reports whether every byte of a range is in some span. It jumps from span to span only
// because a range can be 4 GiB long.
func (g *Guest) holds(addr, n uint64) bool {
	for n > 0 {
		found := false
		for _, s := range g.Spans {
			if addr >= s.Addr && addr-s.Addr < s.Size {
				k := min(n, s.Size-(addr-s.Addr))
				addr, n, found = addr+k, n-k, true
				break
			}
		}
		if !found || (addr == 0 && n > 0) {
			return false
		}
	}
	return true
}

// desc reads a descriptor and puts it together a byte at a time.
func (g *Guest) desc(addr uint64) Desc {
	v := g.Read(addr, 16)
	join := func(from, to int) (x uint64) {
		for i := to - 1; i >= from; i-- {
			x = x<<8 | uint64(v[i])
		}
		return x
	}
	return Desc{join(0, 8), uint32(join(8, 12)), uint16(join(12, 14)), uint16(join(14, 16))}
}
