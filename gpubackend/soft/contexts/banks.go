// SPDX-License-Identifier: Apache-2.0

package contexts

import "github.com/paracuda/paracuda/gpubackend"

// Banks of shared memory are four bytes wide, as they are on every GPU since compute capability 5.0; wishes change
// nothing.
const (
	bankFourBytes = 1
	lastBank      = 2
)

// CtxGetSharedMemConfig implements gpubackend.Driver.
func (x *Contexts) CtxGetSharedMemConfig() (uint64, gpubackend.Result) {
	if _, result := x.Current(); result != gpubackend.Success {
		return 0, result
	}
	return bankFourBytes, gpubackend.Success
}

// CtxSetSharedMemConfig implements gpubackend.Driver.
func (x *Contexts) CtxSetSharedMemConfig(config uint64) gpubackend.Result {
	if _, result := x.Current(); result != gpubackend.Success {
		return result
	}
	if config > lastBank {
		return gpubackend.InvalidValue
	}
	return gpubackend.Success
}

// FuncSetSharedMemConfig implements gpubackend.Driver.
func (x *Contexts) FuncSetSharedMemConfig(_ gpubackend.Function, config uint64) gpubackend.Result {
	return x.CtxSetSharedMemConfig(config)
}
