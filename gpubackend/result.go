// SPDX-License-Identifier: Apache-2.0

package gpubackend

import (
	"errors"
	"fmt"
)

// Result is a CUresult. The results themselves are generated from api/errors.tsv.
type Result int32

// Sticky says whether r kills its context: every later call returns it too (CUDA driver API, "Data
// types used by CUDA driver": "the process must be terminated and relaunched").
func (r Result) Sticky() bool {
	switch r {
	case IllegalAddress, LaunchTimeout, Assert, HardwareStackError, IllegalInstruction,
		MisalignedAddress,
		InvalidAddressSpace, InvalidPC, LaunchFailed, ECCUncorrectable, NvlinkUncorrectable,
		Contained,
		TensorMemoryLeak:
		return true
	}
	return false
}

// OfGPU says whether r is about the GPU itself, which is broken or gone, not about what a program
// did.
func (r Result) OfGPU() bool {
	switch r {
	case ECCUncorrectable, NvlinkUncorrectable, Contained, Unknown:
		return true
	}
	return false
}

// Err returns nil for Success, else r as an error.
func (r Result) Err() error {
	if r == Success {
		return nil
	}
	return resultError(r)
}

type resultError Result

func (e resultError) Error() string { return Result(e).String() }

// ResultIn is the Result that an error is, or wraps; Success for none.
func ResultIn(err error) Result {
	var r resultError
	if errors.As(err, &r) {
		return Result(r)
	}
	return Success
}

// String is the name that CUDA's header has for r, and its number.
func (r Result) String() string {
	name, ok := resultNames[r]
	if !ok {
		name = "CUDA error"
	}
	return fmt.Sprintf("%s (%d)", name, int32(r))
}
