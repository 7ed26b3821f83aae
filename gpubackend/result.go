// SPDX-License-Identifier: Apache-2.0

package gpubackend

import "fmt"

// Result is a CUresult.
type Result int32

// The results that this package and its devices give. All of CUDA's are in api/errors.tsv.
const (
	Success                Result = 0
	InvalidValue           Result = 1
	OutOfMemory            Result = 2
	NotInitialized         Result = 3
	Deinitialized          Result = 4
	DeviceUnavailable      Result = 46
	NoDevice               Result = 100
	InvalidDevice          Result = 101
	InvalidImage           Result = 200
	InvalidContext         Result = 201
	AlreadyMapped          Result = 208
	NoBinaryForGPU         Result = 209
	UnsupportedLimit       Result = 215
	InvalidPTX             Result = 218
	UnsupportedPTX         Result = 222
	FileNotFound           Result = 301
	InvalidHandle          Result = 400
	IllegalState           Result = 401
	NotFound               Result = 500
	NotReady               Result = 600
	IllegalAddress         Result = 700
	LaunchOutOfResources   Result = 701
	LaunchTimeout          Result = 702
	ContextIsDestroyed     Result = 709
	Assert                 Result = 710
	HostMemoryRegistered   Result = 712
	HostMemoryUnregistered Result = 713
	IllegalInstruction     Result = 715
	MisalignedAddress      Result = 716
	InvalidAddressSpace    Result = 717
	InvalidPC              Result = 718
	LaunchFailed           Result = 719
	CooperativeTooLarge    Result = 720
	NotPermitted           Result = 800
	NotSupported           Result = 801
	SystemNotReady         Result = 802
	CaptureUnsupported     Result = 900
	CaptureInvalidated     Result = 901
	CaptureMerge           Result = 902
	CaptureUnmatched       Result = 903
	CaptureUnjoined        Result = 904
	CaptureIsolation       Result = 905
	CaptureImplicit        Result = 906
	CapturedEvent          Result = 907
	GraphExecUpdateFailure Result = 910
	InvalidResourceType    Result = 914
	InvalidResourceConfig  Result = 915
	Unknown                Result = 999
)

// Sticky says whether r kills its context: every later call returns it too (CUDA driver API, "Data types used by
// CUDA driver": "the process must be terminated and relaunched").
func (r Result) Sticky() bool {
	switch r {
	case IllegalAddress, LaunchTimeout, Assert, 714, IllegalInstruction, MisalignedAddress, InvalidAddressSpace,
		InvalidPC, LaunchFailed, 214, 220, 226, 721:
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

func (e resultError) Error() string { return fmt.Sprintf("CUDA error %d", int32(e)) }
