// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/binary"
	"hash/crc32"
)

// sum is the checksum of a record so far: its CRC-32C. It is the rest of a division of polynomials
// whose coefficients are bits, the first one in the highest bit.
type sum uint32

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumOf is the sum of content alone.
func sumOf(p []byte) sum { return sum(crc32.Checksum(p, castagnoli)) }

func (s *sum) add(p []byte) { *s = sum(crc32.Update(uint32(*s), castagnoli, p)) }

// join adds content of which the sum and the length are known. So the sums of several stretches can
// be computed at the same time.
func (s *sum) join(own sum, bytes int) { *s = times(*s, power(8*uint(bytes))) ^ own }

// one is the polynomial 1, and x is x.
const (
	one sum = 1 << 31
	x   sum = 1 << 30
)

// times is the product of two polynomials, modulo that of the CRC.
func times(a, b sum) (product sum) {
	for ; a != 0; a <<= 1 {
		if a&one != 0 {
			product ^= b
		}
		carry := b & 1
		b = b>>1 ^ carry*crc32.Castagnoli
	}
	return product
}

// power is x to the power of n, modulo the CRC's polynomial.
func power(n uint) sum {
	result, square := one, x
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			result = times(result, square)
		}
		square = times(square, square)
	}
	return result
}

// follows says whether content is what lies between two checksums.
func follows(before, content, behind []byte) bool {
	s := sum(binary.LittleEndian.Uint32(before))
	s.add(content)
	return s == sum(binary.LittleEndian.Uint32(behind))
}

func (s sum) bytes() []byte { return binary.LittleEndian.AppendUint32(nil, uint32(s)) }
