// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"encoding/binary"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/roomtest"
)

const whereKernel = `.version 8.0
.target sm_80
.address_size 64
.visible .entry where(.param .u64 p)
{
	.reg .b64 %rd<4>;
	.reg .b32 %r<4>;
	ld.param.u64 %rd1, [p];
	mov.u32 %r1, %ctaid.x;
	mul.wide.u32 %rd2, %r1, 4;
	add.s64 %rd3, %rd1, %rd2;
	mov.u32 %r2, %smid;
	st.global.u32 [%rd3], %r2;
	ret;
}
`

// TestGreenContextKeepsToItsPart launches in the default stream and in others, while the green
// context is current and while the primary one is.
func TestGreenContextKeepsToItsPart(t *testing.T) {
	d := newDevice(t, Options{Multiprocessors: 8})
	home := primary(t, d)
	m, _, _, result := d.ModuleLoadData([]byte(whereKernel), nil, nil, nil)
	ok(t, result)
	f := getFunction(t, d, m, "where")
	a := alloc(t, d, 256)
	groups := make([]gpubackend.Resource, 2)
	_, _, result = d.SplitResource(roomtest.Whole(t, d), groups, 0, 3)
	ok(t, result)
	g, c := roomtest.MakeGreen(t, d, &groups[1])
	own, result := d.GreenCtxStreamCreate(g, cudaabi.StreamNonBlocking, 0)
	ok(t, result)
	check := func(s gpubackend.Stream, first, last uint32) {
		t.Helper()
		ok(t, d.Launch(&gpubackend.Launch{
			Function: f, Grid: [3]uint32{64, 1, 1}, Block: [3]uint32{1, 1, 1}, Stream: s,
			Parameters: params(a),
		}))
		synchronize(t, d)
		b, seen := read(t, d, a, 256), map[uint32]bool{}
		for i := range 64 {
			seen[binary.LittleEndian.Uint32(b[4*i:])] = true
		}
		for sm := range uint32(8) {
			if seen[sm] != (sm >= first && sm <= last) {
				t.Errorf("multiprocessors %v, want %d to %d", seen, first, last)
			}
		}
	}
	check(0, 0, 7)
	check(own, 3, 5)
	ok(t, d.SetCurrent(c))
	check(0, 3, 5)
	check(newStream(t, d, 0), 3, 5)
	ok(t, d.SetCurrent(home))
	check(newStream(t, d, 0), 0, 7)
	ok(t, d.GreenCtxDestroy(g))
	want(t, d.StreamQuery(own), gpubackend.InvalidHandle)
	want(t, d.SetCurrent(c), gpubackend.InvalidContext)
}

// TestGreenContextsOrder: events and queries of a green context are about its own streams only.
func TestGreenContextsOrder(t *testing.T) {
	d := newDevice(t, Options{Multiprocessors: 4})
	home := primary(t, d)
	g, c := roomtest.MakeGreen(t, d, roomtest.Whole(t, d))
	s, result := d.GreenCtxStreamCreate(g, cudaabi.StreamNonBlocking, 0)
	ok(t, result)
	open := gate(t, d, newStream(t, d, cudaabi.StreamNonBlocking))
	e, all := newEvent(t, d), newEvent(t, d)
	ok(t, d.GreenCtxRecordEvent(g, e))
	ok(t, d.EventQuery(e)) // it doesn't stand for what the primary context does
	ok(t, d.CtxRecordEvent(home, all))
	want(t, d.EventQuery(all), gpubackend.NotReady)
	want(t, d.ContextQuery(), gpubackend.NotReady)
	ok(t, d.SetCurrent(c))
	ok(t, d.ContextQuery())
	ok(t, d.GreenCtxWaitEvent(g, all))
	want(t, d.ContextQuery(), gpubackend.NotReady)
	want(t, d.StreamQuery(s), gpubackend.NotReady)
	open()
	ok(t, wait(t, d.ContextQuery))
	ok(t, d.EventQuery(all))
	want(t, d.GreenCtxRecordEvent(g, 12345), gpubackend.InvalidHandle)
	want(t, d.GreenCtxWaitEvent(12345, all), gpubackend.InvalidContext)
}
