// SPDX-License-Identifier: Apache-2.0

package chip

import (
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

const (
	reduction = cudaabi.AtomicCapabilityReduction
	both      = cudaabi.AtomicCapabilityScalar32 | cudaabi.AtomicCapabilityScalar64
	unsigned  = cudaabi.AtomicCapabilityUnsigned | both
	integers  = cudaabi.AtomicCapabilitySigned | unsigned
	counter   = cudaabi.AtomicCapabilityUnsigned | cudaabi.AtomicCapabilityScalar32
)

// atomics are the atomic operations of kernels, by CUDA's numbers, each with the types that it
// works on. They are the same on all memory that a kernel reaches. PTX has no atomic min and max of
// scalar floating-point numbers.
var atomics = [wire.AtomicOperations]uint16{
	cudaabi.AtomicOperationIntegerAdd:       integers | reduction,
	cudaabi.AtomicOperationIntegerMin:       integers | reduction,
	cudaabi.AtomicOperationIntegerMax:       integers | reduction,
	cudaabi.AtomicOperationIntegerIncrement: counter | reduction,
	cudaabi.AtomicOperationIntegerDecrement: counter | reduction,
	cudaabi.AtomicOperationAnd:              unsigned | reduction,
	cudaabi.AtomicOperationOr:               unsigned | reduction,
	cudaabi.AtomicOperationXor:              unsigned | reduction,
	cudaabi.AtomicOperationExchange:         unsigned,
	cudaabi.AtomicOperationCas:              unsigned,
	cudaabi.AtomicOperationFloatAdd:         cudaabi.AtomicCapabilitySigned | both | reduction,
}
