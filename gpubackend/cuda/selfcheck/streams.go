// SPDX-License-Identifier: Apache-2.0

package selfcheck

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
)

// pattern is n bytes that depend on seed.
func pattern(n int, seed uint64) []byte {
	b := make([]byte, (n+7)/8*8)
	x := seed*0x9e3779b97f4a7c15 + 1
	for i := 0; i < len(b); i += 8 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		binary.LittleEndian.PutUint64(b[i:], x)
	}
	return b[:n]
}

func (c *checker) boxes() (string, error) {
	const pitch, height, depth, width = 512, 16, 4, 300
	const slice = pitch * (height + 2)
	p, r := c.device.MemAlloc(2 * slice * depth)
	if r != gpubackend.Success {
		return "", must("allocate", r)
	}
	src, dst := p, p+slice*depth
	in := pattern(slice*depth, 7)
	for _, b := range []gpubackend.Box{
		{Dst: dst + 5, Src: src + 3, DstPitch: pitch, SrcPitch: pitch, Width: width, Height: height,
			Depth: 1},
		{Dst: dst, Src: src, DstPitch: pitch, SrcPitch: pitch, DstSlice: slice, SrcSlice: slice,
			Width: width, Height: height, Depth: depth},
		{Dst: dst, Src: src, DstPitch: pitch, SrcPitch: pitch, DstSlice: slice - 1,
			SrcSlice: slice - 1, Width: width, Height: height, Depth: depth},
	} {
		expected := make([]byte, slice*depth)
		for z := range b.Depth {
			for y := range b.Height {
				from, to := b.Src-src+z*b.SrcSlice+y*b.SrcPitch, b.Dst-dst+z*b.DstSlice+y*b.DstPitch
				copy(expected[to:to+b.Width], in[from:])
			}
		}
		out := make([]byte, len(in))
		err := firstError(must("copy in", c.device.CopyIn(src, in, c.stream)),
			must("clear", c.device.MemsetD8Async(dst, 0, slice*depth, c.stream)),
			must("box", c.device.CopyBox(&b, c.stream)), c.wait(),
			must("copy out", c.device.CopyOut(out, dst)))
		if err != nil {
			return "", err
		}
		if !bytes.Equal(out, expected) {
			return "", fmt.Errorf("box of %d x %d x %d differs", b.Width, b.Height, b.Depth)
		}
	}
	return "", must("free", c.device.MemFree(p))
}

func (c *checker) events() (string, error) {
	n := c.config.Bytes
	p, r := c.device.MemAlloc(n)
	if r != gpubackend.Success {
		return "", must("allocate", r)
	}
	a, r1 := c.device.EventCreate(0)
	b, r2 := c.device.EventCreate(0)
	err := firstError(must("create", r1), must("create", r2),
		must("record", c.device.EventRecordWithFlags(a, c.stream, 0)),
		must("fill", c.device.MemsetD32Async(p, 0x01020304, n/4, c.stream)),
		must("record", c.device.EventRecordWithFlags(b, c.stream, 0)),
		must("wait", c.device.StreamWaitEvent(gpubackend.DefaultStream, b, 0)), c.wait())
	if err != nil {
		return "", err
	}
	ns, r := c.device.EventElapsed(a, b)
	if err := firstError(must("elapsed", r), must("query", c.device.EventQuery(b)),
		must("free", c.device.MemFree(p))); err != nil {
		return "", err
	}
	return "fill: " + rate(n, time.Duration(ns)),
		firstError(must("destroy", c.device.EventDestroy(a)),
			must("destroy", c.device.EventDestroy(b)))
}

func (c *checker) hostFunction() (string, error) {
	called := make(chan uint64, 1)
	release, r := c.device.HostFunc(c.stream, 42, func(token uint64) { called <- token })
	if r != gpubackend.Success {
		return "", must("queue", r)
	}
	start := time.Now()
	select {
	case token := <-called:
		if token != 42 {
			return "", fmt.Errorf("token %d, want 42", token)
		}
	case <-time.After(5 * time.Second):
		return "", errors.New("not called after 5 s")
	}
	took := time.Since(start)
	if err := want("stream before release", c.device.StreamQuery(c.stream),
		gpubackend.NotReady); err != nil {
		return "", err
	}
	release()
	return fmt.Sprintf("called after %v", took.Round(time.Microsecond)), c.wait()
}

func (c *checker) registered() (string, error) {
	n := c.config.Bytes
	mem, fd, err := sharedMemory(n)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	defer func() { _ = unix.Munmap(mem) }()
	copy(mem, pattern(1<<20, 3))
	base := address(mem)
	start := time.Now()
	if err := must("register", c.device.HostRegister(base, n, true)); err != nil {
		return "", err
	}
	registering := time.Since(start)
	p, r := c.device.MemAlloc(n)
	if r != gpubackend.Success {
		return "", must("allocate", r)
	}
	var took [2]time.Duration
	for i, pair := range [][2]uint64{{p, base}, {base, p}} {
		start = time.Now()
		if err := firstError(must("copy", c.device.Copy(pair[0], pair[1], n, c.stream)),
			c.wait()); err != nil {
			return "", err
		}
		took[i] = time.Since(start)
	}
	err = firstError(c.outOfReach(p), must("free", c.device.MemFree(p)),
		want("register twice", c.device.HostRegister(base, n, true),
			gpubackend.HostMemoryAlreadyRegistered),
		must("unregister", c.device.HostUnregister(base, n)),
		want("unregister twice", c.device.HostUnregister(base, n),
			gpubackend.HostMemoryNotRegistered))
	return fmt.Sprintf("register %v, in %s, out %s", registering.Round(time.Microsecond),
		rate(n, took[0]), rate(n, took[1])), err
}

// outOfReach copies between device memory and memory of this process that isn't the guest's.
func (c *checker) outOfReach(p uint64) error {
	mem, fd, err := sharedMemory(4096)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	defer func() { _ = unix.Munmap(mem) }()
	own := address(mem)
	box := gpubackend.Box{Dst: p, DstPitch: 64, Src: own, SrcPitch: 64, Width: 64, Height: 4,
		Depth: 1}
	return firstError(want("copy from own memory", c.device.Copy(p, own, 4096, c.stream),
		gpubackend.InvalidValue),
		want("copy to own memory", c.device.Copy(own, p, 4096, c.stream), gpubackend.InvalidValue),
		want("copy rows from own memory", c.device.CopyBox(&box, c.stream),
			gpubackend.InvalidValue),
		want("fill own memory", c.device.MemsetD8Async(own, 0, 4096, c.stream),
			gpubackend.InvalidValue))
}

func (c *checker) output() (string, error) {
	if c.config.Capture == nil {
		return "skipped: output is not captured", nil
	}
	m, _, _, r := c.device.ModuleLoadData(printing, nil, nil, nil)
	if r != gpubackend.Success {
		return "", must("load", r)
	}
	f, r := c.device.ModuleGetFunction(m, "print")
	if r != gpubackend.Success {
		return "", must("function", r)
	}
	l := &gpubackend.Launch{Function: f, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1},
		Stream: c.stream}
	if err := firstError(must("launch", c.device.Launch(l)), c.wait()); err != nil {
		return "", err
	}
	for _, o := range c.device.Output() {
		if o.FD == 1 && string(o.Text) == "hello from a kernel\n" {
			return "", nil
		}
	}
	return "", errors.New("what the kernel printed wasn't captured")
}

func (c *checker) illegal() (string, error) {
	f, err := c.function("fault")
	if err != nil {
		return "", err
	}
	l := &gpubackend.Launch{Function: f, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1},
		Stream: c.stream}
	if err := must("launch", c.device.Launch(l)); err != nil {
		return "", err
	}
	deadline := time.Now().Add(20 * time.Second)
	r := gpubackend.NotReady
	for r == gpubackend.NotReady && time.Now().Before(deadline) {
		r = c.device.ContextQuery()
	}
	_, after := c.device.MemAlloc(4096)
	return "sticky",
		firstError(want("query", r, gpubackend.IllegalAddress),
			want("allocate", after, gpubackend.IllegalAddress),
			want("copy", c.device.CopyOut(make([]byte, 4), 0x500000000000),
				gpubackend.IllegalAddress))
}
