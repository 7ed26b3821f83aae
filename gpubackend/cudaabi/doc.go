// SPDX-License-Identifier: Apache-2.0

// Package cudaabi has the binary layout of CUDA's driver API: its structures, as bytes with a
// method for each field, and the numbers that its header names. All of it is generated from
// gpubackend/api/cuda_layout.def and cuda_values.def, and a test compares that with a real header.
//
// A structure is a slice that the caller owns: cudaabi.MemPoolProps(b).MaxSize() reads eight bytes
// of b and allocates nothing. A method panics where the slice is too short, so the bytes of a guest
// are measured first, against the structure's size: len(b) >= cudaabi.MemPoolPropsSize. What they
// say is the guest's word: the package says where a field is, not whether its value is allowed
// (package allowed).
//
// Pointers and handles are numbers of 64 bits, enumerations of 32.
package cudaabi
