// SPDX-License-Identifier: Apache-2.0

// Package fatbin opens the device-code images that CUDA programs hand to
// cuModuleLoadData, cuModuleLoadFatBinary and cuLibraryLoadData: fat binary
// containers (plain, LZ4 or zstd compressed variants), PTX text, and ELF cubins.
//
// The layout of the container is that of the .nv_fatbin section that nvcc writes: a 16-byte header,
// then variants of a header of at least 64 bytes and a payload. The kind of an image is decided by
// its first bytes alone; programs pass any kind to any of the calls.
//
// The bytes come from a guest and are not trusted: every length is checked
// before it is used, decompression is bounded by MaxPayload and by the size
// that the variant announces, and nothing here panics on any input.
//
// A Binary keeps references into the bytes that it was opened from, which must
// not change while it is used. It is immutable and safe for concurrent use.
package fatbin
