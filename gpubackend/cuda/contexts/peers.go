// SPDX-License-Identifier: Apache-2.0

package contexts

import "github.com/paracuda/paracuda/gpubackend"

// CtxEnablePeerAccess makes the driver give access to what it allocates itself, and Connect to the
// rest. The latter holds for all contexts of the GPU.
func (x *Contexts) CtxEnablePeerAccess(h gpubackend.Context, flags uint64) gpubackend.Result {
	peer := x.table[h]
	if !x.Usable() || peer == nil || !peer.Exists() {
		return gpubackend.InvalidContext
	}
	r := x.calls.CtxEnablePeerAccess(h, flags)
	if r != gpubackend.Success {
		return r
	}
	if r = x.peers.Give(x.state.Home(), peer.Home()); r != gpubackend.Success {
		x.calls.CtxDisablePeerAccess(h)
	}
	return r
}

// CtxDisablePeerAccess takes both back.
func (x *Contexts) CtxDisablePeerAccess(h gpubackend.Context) gpubackend.Result {
	peer := x.table[h]
	if !x.Usable() || peer == nil || !peer.Exists() {
		return gpubackend.InvalidContext
	}
	r := x.calls.CtxDisablePeerAccess(h)
	if r == gpubackend.Success {
		x.peers.Take(x.state.Home(), peer.Home())
	}
	return r
}
