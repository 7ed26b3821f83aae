// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// resourceSpace is what the driver may write for a resource: its size and as much again, should a
// newer driver know of more.
const resourceSpace = 2 * cudaabi.DevResourceSize

// Resource asks what a device (its handle), a context or a green context has.
func (d Green) Resource(
	of gpubackend.ResourceSource, which, kind uint64,
) (r gpubackend.Resource, result gpubackend.Result) {
	function := symDeviceGetDevResource
	switch of {
	case gpubackend.OfContext:
		function = symCtxGetDevResource
	case gpubackend.OfGreenContext:
		function = symGreenCtxGetDevResource
	}
	b := cmem.Allocate(resourceSpace)
	defer b.Free()
	result = d.call(function, which, b.Address(), kind)
	copy(r[:], b.Bytes())
	return r, result
}

// SplitResource makes the driver split a resource of its own.
func (d Green) SplitResource(
	r *gpubackend.Resource, groups []gpubackend.Resource, flags, least uint64,
) (n int, rest gpubackend.Resource, result gpubackend.Result) {
	in := cmem.Copied(r[:], resourceSpace)
	defer in.Free()
	out := cmem.Allocate(resourceSpace + len(groups)*cudaabi.DevResourceSize + resourceSpace)
	defer out.Free()
	first, count := uint64(0), d.inOut(0, uint64(len(groups)))
	if len(groups) > 0 {
		first = out.Address() + resourceSpace
	}
	result = d.call(symDevSmResourceSplitByCount, first, count, in.Address(), out.Address(), flags,
		least)
	n = int(uint32(d.value(0)))
	b := out.Bytes()
	copy(rest[:], b)
	for i := range groups {
		copy(groups[i][:], b[resourceSpace+i*cudaabi.DevResourceSize:])
	}
	return n, rest, result
}

// DescribeResources makes a descriptor, which nothing frees.
func (d Green) DescribeResources(
	rs []gpubackend.Resource,
) (gpubackend.ResourceDesc, gpubackend.Result) {
	b := cmem.Allocate(len(rs)*cudaabi.DevResourceSize + resourceSpace)
	defer b.Free()
	for i := range rs {
		copy(b.Bytes()[i*cudaabi.DevResourceSize:], rs[i][:])
	}
	result := d.call(symDevResourceGenerateDesc, d.out(0), b.Address(), uint64(len(rs)))
	return gpubackend.ResourceDesc(d.value(0)), result
}

// GreenCtxMake makes a green context of a GPU's resources.
func (d Green) GreenCtxMake(
	desc gpubackend.ResourceDesc, device, flags uint64,
) (gpubackend.GreenContext, gpubackend.Result) {
	r := d.call(symGreenCtxCreate, d.out(0), uint64(desc), device, flags)
	return gpubackend.GreenContext(d.value(0)), r
}

// GreenCtxEnd ends a green context.
func (d Green) GreenCtxEnd(g gpubackend.GreenContext) gpubackend.Result {
	return d.call(symGreenCtxDestroy, uint64(g))
}

// CtxFromGreenCtx returns the context by which a green context is made current.
func (d Green) CtxFromGreenCtx(
	g gpubackend.GreenContext,
) (gpubackend.Context, gpubackend.Result) {
	r := d.call(symCtxFromGreenCtx, d.out(0), uint64(g))
	return gpubackend.Context(d.value(0)), r
}
