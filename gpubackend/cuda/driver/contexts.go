// SPDX-License-Identifier: Apache-2.0

package driver

import "github.com/paracuda/paracuda/gpubackend"

// CtxSetCurrent makes a context the thread's current one; 0 is none.
func (d Contexts) CtxSetCurrent(c gpubackend.Context) gpubackend.Result {
	return d.call(symCtxSetCurrent, uint64(c))
}

// CtxPopCurrent takes the current context from the thread's stack.
func (d Contexts) CtxPopCurrent() gpubackend.Result { return d.call(symCtxPopCurrent, d.out(0)) }

// CtxSynchronize waits for the work of the current context.
func (d Contexts) CtxSynchronize() gpubackend.Result { return d.call(symCtxSynchronize) }
