// SPDX-License-Identifier: Apache-2.0

package overlap

import "golang.org/x/sys/unix"

// mapped is from how many bytes on memory is mapped. What Take gives out with fewer is the Go
// heap's.
const mapped = 1 << 20

// Take returns memory for pieces of a copy, until Give. Large memory goes back to the kernel then:
// in the Go heap it would stay for minutes, in the device process of each VM.
func Take(bytes int) []byte {
	if bytes >= mapped {
		b, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err == nil {
			return b
		}
	}
	return make([]byte, bytes)
}

// Give gives back what Take has returned. Nobody may use it any more.
func Give(b []byte) {
	if len(b) >= mapped {
		_ = unix.Munmap(b) // it refuses memory of the Go heap
	}
}
