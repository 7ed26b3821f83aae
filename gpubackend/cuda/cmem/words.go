// SPDX-License-Identifier: Apache-2.0

package cmem

import "encoding/binary"

// Copied returns memory with the content of s and at least pad zero bytes after it.
func Copied(s []byte, pad int) Memory {
	b := Allocate(len(s) + pad)
	copy(b.Bytes(), s)
	return b
}

// Optional is a copy of s; the zero value, whose address is 0, if s is empty.
func Optional(s []byte) Memory {
	if len(s) == 0 {
		return Memory{}
	}
	return Copied(s, 0)
}

// Handles is an array of handles; the zero value for none.
func Handles[Handle ~uint64](handles []Handle) Memory {
	if len(handles) == 0 {
		return Memory{}
	}
	b := Allocate(8 * len(handles))
	for i, h := range handles {
		binary.NativeEndian.PutUint64(b.Bytes()[8*i:], uint64(h))
	}
	return b
}

// Words copies memory as words.
func (b Memory) Words() []uint64 { return WordsAt(b.Address(), uint64(b.n/8)) }

// BytesAt copies memory of the driver's.
func BytesAt(address, n uint64) []byte {
	return append([]byte(nil), At(address, int(n))...)
}

// WordsAt copies n words of the driver's; nil for none.
func WordsAt(address, n uint64) []uint64 {
	if address == 0 || n == 0 {
		return nil
	}
	b := BytesAt(address, 8*n)
	v := make([]uint64, n)
	for i := range v {
		v[i] = binary.NativeEndian.Uint64(b[8*i:])
	}
	return v
}
