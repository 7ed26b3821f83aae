// SPDX-License-Identifier: Apache-2.0

package roomtest

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/resulttest"
)

// Divisible is a device, or a room of one, that gives out its multiprocessors in parts.
type Divisible interface {
	DevResource(
		of gpubackend.ResourceSource, which, kind uint64,
	) (gpubackend.Resource, gpubackend.Result)
	DescribeResources([]gpubackend.Resource) (gpubackend.ResourceDesc, gpubackend.Result)
	GreenCtxCreate(
		desc gpubackend.ResourceDesc, device, flags uint64,
	) (gpubackend.GreenContext, gpubackend.Context, gpubackend.Result)
}

// Whole is all multiprocessors of the device.
func Whole(t testing.TB, d Divisible) *gpubackend.Resource {
	t.Helper()
	r, result := d.DevResource(gpubackend.OfDevice, 0, cudaabi.DevResourceTypeSM)
	resulttest.OK(t, result)
	return &r
}

// MakeGreen makes a green context of some of them.
func MakeGreen(
	t testing.TB, d Divisible, r *gpubackend.Resource,
) (gpubackend.GreenContext, gpubackend.Context) {
	t.Helper()
	desc, result := d.DescribeResources([]gpubackend.Resource{*r})
	resulttest.OK(t, result)
	g, c, result := d.GreenCtxCreate(desc, 0, cudaabi.GreenCtxDefaultStream)
	resulttest.OK(t, result)
	return g, c
}
