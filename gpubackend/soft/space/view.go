// SPDX-License-Identifier: Apache-2.0

package space

// View is what kernels of one GPU see of a space: its own window, and what it was given of the
// rest. It implements simt.Memory.
type View struct {
	space *Space
	gpu   gpus
}

// View returns what kernels of a GPU see.
func (s *Space) View(gpu int) View { return View{s, only(gpu)} }

// Lookup implements simt.Memory.
func (v View) Lookup(addr uint64) (base, end uint64, writable, ok bool) {
	r, ok := v.space.table.Load().lookup(addr)
	if !ok || r.read&v.gpu == 0 {
		return 0, 0, false, false
	}
	return r.base, r.end, r.write&v.gpu != 0, true
}

// Covers tells whether the GPU's kernels may read, or write, the whole range now.
func (v View) Covers(addr, bytes uint64, write bool) bool {
	return v.space.table.Load().covers(addr, bytes, write, v.gpu)
}

// Connect says whether kernels of one GPU reach the memory in another's window, now and later.
func (s *Space) Connect(from, to int, reaches bool) {
	if from == to {
		return // it always reaches its own
	}
	s.reach[to] &^= only(from)
	if reaches {
		s.reach[to] |= only(from)
	}
	reach, base := s.reach[to], s.windows[to].base
	s.table.Store(s.table.Load().changed(base, base+s.windows[to].size,
		func(r *region) { r.read, r.write = reach, reach }))
}

// Protect says how kernels of a GPU reach a range outside the windows, which is one region or none
// yet. Copies reach it as soon as any GPU does.
func (s *Space) Protect(addr, bytes uint64, gpu int, read, write bool) {
	t := s.table.Load()
	r, known := t.lookup(addr)
	if !known {
		r = region{base: addr, end: addr + bytes}
	}
	r.read, r.write = r.read&^only(gpu), r.write&^only(gpu)
	if read {
		r.read |= only(gpu)
	}
	if write {
		r.write |= only(gpu)
	}
	if t = t.without(addr); r.read != 0 {
		t = t.with(r)
	}
	s.table.Store(t)
}
