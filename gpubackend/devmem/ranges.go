// SPDX-License-Identifier: Apache-2.0

package devmem

// ranges is a set of free address ranges, by address and by size. Ranges that touch become one.
type ranges struct {
	byAddr tree[uint64]   // address: size
	bySize tree[struct{}] // size, address
}

// take removes bytes from the smallest range that holds them, the lowest of several, and returns
// their address.
func (r *ranges) take(bytes uint64) (addr uint64, ok bool) {
	n := r.bySize.ceiling(key{hi: bytes})
	if n == nil {
		return 0, false
	}
	size, addr := n.key.hi, n.key.lo
	r.remove(addr, size)
	if size > bytes {
		r.insert(addr+bytes, size-bytes)
	}
	return addr, true
}

// give adds a range, joins it with its neighbours if they lie in [low, high), and returns the
// result.
func (r *ranges) give(addr, bytes, low, high uint64) (joined, size uint64) {
	if n := r.byAddr.floor(key{hi: addr}); n != nil && n.key.hi >= low && n.key.hi+n.value == addr {
		addr, bytes = n.key.hi, n.value+bytes
		r.remove(n.key.hi, n.value)
	}
	if n := r.byAddr.ceiling(key{hi: addr + bytes}); n != nil && n.key.hi < high &&
		n.key.hi == addr+bytes {
		bytes += n.value
		r.remove(n.key.hi, n.value)
	}
	r.insert(addr, bytes)
	return addr, bytes
}

func (r *ranges) insert(addr, bytes uint64) {
	r.byAddr.insert(key{hi: addr}, bytes)
	r.bySize.insert(key{hi: bytes, lo: addr}, struct{}{})
}

func (r *ranges) remove(addr, bytes uint64) {
	r.byAddr.remove(key{hi: addr})
	r.bySize.remove(key{hi: bytes, lo: addr})
}
