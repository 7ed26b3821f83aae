// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"encoding/binary"
	"math"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cuda/drivertest"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// TestCapturedCopies replays a copy from host memory that is ordinary, registered, or was
// registered anew since. In the last case the launch fails. The worker therefore doesn't register
// ordinary memory (HostPageable).
func TestCapturedCopies(t *testing.T) {
	for _, test := range []struct {
		name              string
		register, another bool
		want              gpubackend.Result
	}{
		{"ordinary", false, false, gpubackend.Success},
		{"registered", true, false, gpubackend.Success},
		{"registered anew", true, true, gpubackend.LaunchFailed},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newDevice(t, Options{})
			host, err := unix.Mmap(-1, 0, 8192, unix.PROT_READ|unix.PROT_WRITE,
				unix.MAP_SHARED|unix.MAP_ANONYMOUS)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = unix.Munmap(host) }()
			base := cmem.AddressOf(host)
			if test.register {
				must(t, "register", d.HostRegister(base, 4096, true))
				defer func() { drivertest.Tell("fake_sticky", 0); d.HostUnregister(base, 0) }()
			} else {
				must(t, "tell", d.HostPageable(base, 4096))
			}
			dev, r := d.MemAlloc(4096)
			must(t, "allocate", r)
			s, r := d.StreamCreateWithPriority(1, 0)
			must(t, "stream", r)
			must(t, "begin", d.StreamBeginCapture(s, 0))
			must(t, "copy", d.Copy(dev, base, 4096, s))
			g, r := d.StreamEndCapture(s)
			must(t, "end", r)
			if test.another {
				must(t, "unregister", d.HostUnregister(base, 4096))
				must(t, "register again", d.HostRegister(base, 8192, true))
			}
			e, r := d.GraphInstantiateWithFlags(g, 0)
			must(t, "instantiate", r)
			for i := range byte(3) {
				host[4095] = i + 1
				must(t, "launch", d.GraphLaunch(e, s))
				want(t, "query", d.StreamQuery(s), test.want)
				if test.want != gpubackend.Success {
					return
				}
				got := make([]byte, 1)
				must(t, "read", d.CopyOut(got, dev+4095))
				if got[0] != i+1 {
					t.Fatalf("launch %d copied %d", i, got[0])
				}
			}
		})
	}
}

func TestConditionalNode(t *testing.T) {
	d := newDevice(t, Options{})
	g, r := d.GraphCreate(0)
	must(t, "create", r)
	handle, r := d.GraphConditionalHandle(g, 2, 1)
	must(t, "handle", r)
	for _, test := range []struct {
		bodies uint64
		want   gpubackend.Result
	}{{3, gpubackend.Success}, {cudaabi.MaxConditionalBodies + 1, gpubackend.InvalidValue}} {
		n := &gpubackend.Node{Type: gpubackend.NodeConditional, Handle: handle, Kind: 2,
			Bodies: test.bodies}
		node, _, bodies, r := d.GraphAddNode(g, nil, nil, n)
		want(t, "add", r, test.want)
		if r == gpubackend.Success &&
			(node == 0 || len(bodies) != 3 || bodies[0] == 0 || bodies[1] == bodies[2]) {
			t.Errorf("node %#x, bodies %x", node, bodies)
		}
	}
}

// TestCooperativeInACapture: the driver refuses packed parameters of cooperative launches there.
func TestCooperativeInACapture(t *testing.T) {
	d := newDevice(t, Options{})
	f := load(t, d, "vector_add")
	memory, r := d.MemAlloc(4096)
	must(t, "allocate", r)
	s, r := d.StreamCreateWithPriority(1, 0)
	must(t, "stream", r)
	attribute := make([]byte, cudaabi.LaunchAttributeSize)
	attribute[0], attribute[8] = 2, 1 // CU_LAUNCH_ATTRIBUTE_COOPERATIVE
	for i, captured := range []bool{false, true} {
		numbers := []float32{float32(i) + 1, 20, 0} // a, b and their sum
		must(t, "copy", d.CopyIn(memory, floatBytes(numbers), s))
		parameters := binary.LittleEndian.AppendUint64(nil, memory)
		parameters = binary.LittleEndian.AppendUint64(parameters, memory+4)
		parameters = binary.LittleEndian.AppendUint64(parameters, memory+8)
		parameters = binary.LittleEndian.AppendUint32(parameters, 1)
		if captured {
			must(t, "begin", d.StreamBeginCapture(s, 0))
		}
		l := gpubackend.Launch{
			Function: f, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}, Stream: s,
			Parameters: parameters, Attributes: attribute,
		}
		must(t, "launch", d.Launch(&l)) // the fake executes it at once
		if captured {
			_, r = d.StreamEndCapture(s)
			must(t, "end", r)
		}
		got := make([]byte, 4)
		must(t, "copy back", d.CopyOut(got, memory+8))
		if sum := math.Float32frombits(binary.LittleEndian.Uint32(got)); sum != float32(i)+21 {
			t.Errorf("captured %v: %v", captured, sum)
		}
	}
}

func floatBytes(numbers []float32) (b []byte) {
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(n))
	}
	return b
}
