// SPDX-License-Identifier: Apache-2.0

package contexts

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// CtxGetSharedMemConfig implements gpubackend.Driver.
func (x *Contexts) CtxGetSharedMemConfig() (uint64, gpubackend.Result) {
	if _, result := x.Current(); result != gpubackend.Success {
		return 0, result
	}
	return cudaabi.SharedMemConfigFourByteBankSize, gpubackend.Success
}

// CtxSetSharedMemConfig implements gpubackend.Driver.
func (x *Contexts) CtxSetSharedMemConfig(config uint64) gpubackend.Result {
	if _, result := x.Current(); result != gpubackend.Success {
		return result
	}
	if config > cudaabi.SharedMemConfigEightByteBankSize {
		return gpubackend.InvalidValue
	}
	return gpubackend.Success
}

// FuncSetSharedMemConfig implements gpubackend.Driver.
func (x *Contexts) FuncSetSharedMemConfig(_ gpubackend.Function, config uint64) gpubackend.Result {
	return x.CtxSetSharedMemConfig(config)
}
