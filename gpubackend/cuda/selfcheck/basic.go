// SPDX-License-Identifier: Apache-2.0

package selfcheck

import (
	"bytes"
	_ "embed" // for the kernels
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda"
	"github.com/paracuda/paracuda/gpubackend/hostgpus"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

//go:embed kernels.ptx
var kernels []byte

//go:embed print.ptx
var printing []byte

func (c *checker) open() (string, error) {
	d, err := cuda.NewDevice(c.config.Options)
	if err != nil {
		return "", err
	}
	c.device = d
	s, r := d.Open([]string{"CUDA_MODULE_LOADING=LAZY", "CUDA_INJECTION64_PATH=/refused"})
	if r != gpubackend.Success {
		return "", must("open", r)
	}
	first := hostgpus.Described(&s.Device[0])
	return fmt.Sprintf("%d devices, %v, CUDA %d, window %#x+%#x", s.Devices, &first,
		s.DriverVersion, s.WindowBase, s.WindowBytes), nil
}

func (c *checker) begin() (string, error) {
	var r gpubackend.Result
	if c.context, r = c.device.DevicePrimaryCtxRetain(0); r != gpubackend.Success {
		return "", must("retain the primary context", r)
	}
	if err := must("set current", c.device.SetCurrent(c.context)); err != nil {
		return "", err
	}
	if c.stream, r = c.device.StreamCreateWithPriority(1, 0); r != gpubackend.Success {
		return "", must("create a stream", r)
	}
	free, total, r := c.device.MemGetInfo()
	return fmt.Sprintf("%d of %d MiB free", free>>20, total>>20), must("memory info", r)
}

func (c *checker) load() (string, error) {
	var r gpubackend.Result
	log := make([]byte, 4096)
	m, _, used, r := c.device.ModuleLoadData(kernels, nil, nil, log)
	c.module = m
	if r != gpubackend.Success {
		return "", fmt.Errorf("%w: %s", must("load", r), log[:used])
	}
	return "", nil
}

func (c *checker) function(name string) (gpubackend.Function, error) {
	f, r := c.device.ModuleGetFunction(c.module, name)
	return f, must("function "+name, r)
}

func (c *checker) describe() (string, error) {
	f, err := c.function("vector_add")
	if err != nil {
		return "", err
	}
	record := make([]byte, 1024)
	n, r := c.device.FuncDescribe(f, record)
	if r != gpubackend.Success {
		return "", must("describe", r)
	}
	var head wire.FunctionRecord
	head.Decode(record)
	name := string(record[n-uint64(head.NameBytes) : n])
	if head.Parameters != 4 || head.ParameterBytes != 28 || name != "vector_add" ||
		head.Attribute[0] <= 0 {
		return "", fmt.Errorf("%d parameters of %d bytes, name %q, %d threads", head.Parameters,
			head.ParameterBytes, name, head.Attribute[0])
	}
	return fmt.Sprintf("4 parameters of 28 bytes, %d threads a block, %d registers",
		head.Attribute[0], head.Attribute[4]), nil
}

func (c *checker) library() (string, error) {
	lib, _, _, r := c.device.LibraryLoadData(kernels, nil, nil, nil)
	if r != gpubackend.Success {
		return "", must("load", r)
	}
	count, r := c.device.LibraryGetKernelCount(lib)
	if r != gpubackend.Success || count != 3 {
		return "", fmt.Errorf("%d kernels, want 3 (result %d)", count, r)
	}
	record := make([]byte, 1024)
	for i := range count {
		k, r := c.device.LibraryEnumerateKernels(i, lib)
		if r != gpubackend.Success {
			return "", must("enumerate", r)
		}
		if _, r = c.device.KernelDescribe(k, record); r != gpubackend.Success {
			return "", must("describe a kernel", r)
		}
	}
	_, r = c.device.LibraryGetKernel(lib, "no such kernel")
	return "3 kernels",
		firstError(want("unknown kernel", r, gpubackend.NotFound),
			must("unload", c.device.LibraryUnload(lib)))
}

func (c *checker) badModule() (string, error) {
	log := make([]byte, 4096)
	image := []byte(".version 6.5\n.target sm_75\n.address_size 64\n" +
		".visible .entry broken() { nonsense; }\n")
	_, _, used, r := c.device.ModuleLoadData(image, nil, nil, log)
	if err := want("load", r, gpubackend.InvalidPTX); err != nil {
		return "", err
	}
	if used == 0 {
		return "", errors.New("no error log")
	}
	_, _, _, r = c.device.ModuleLoadData([]byte{0xb1, 0x43, 0x62, 0x46, 1, 0, 0, 0}, nil, nil, nil)
	return fmt.Sprintf("%d bytes of log", used), want("wrapper", r, gpubackend.InvalidImage)
}

func (c *checker) allocate() (string, error) {
	const n = 1000
	start := time.Now()
	for range n {
		p, r := c.device.MemAlloc(1 << 20)
		if r != gpubackend.Success {
			return "", must("allocate", r)
		}
		if r = c.device.MemFree(p); r != gpubackend.Success {
			return "", must("free", r)
		}
	}
	took := time.Since(start)
	return each(took, n), want("free twice", c.device.MemFree(1<<44), gpubackend.InvalidValue)
}

func (c *checker) exhaust() (string, error) {
	_, r := c.device.MemAlloc(1 << 50)
	if err := want("allocate 1 PiB", r, gpubackend.OutOfMemory); err != nil {
		return "", err
	}
	p, r := c.device.MemAlloc(4096)
	return "", firstError(must("allocate afterwards", r), must("free", c.device.MemFree(p)))
}

func (c *checker) copyInOut() (string, error) {
	var notes string
	for _, n := range []int{1, 4096, 65536, 16 << 20} {
		p, r := c.device.MemAlloc(uint64(n))
		if r != gpubackend.Success {
			return "", must("allocate", r)
		}
		in, out := pattern(n, uint64(n)), make([]byte, n)
		start := time.Now()
		r = c.device.CopyIn(p, in, c.stream)
		into := time.Since(start)
		if err := firstError(must("copy in", r), c.wait()); err != nil {
			return "", err
		}
		start = time.Now()
		r = c.device.CopyOut(out, p)
		took := time.Since(start)
		if err := firstError(must("copy out", r), must("free", c.device.MemFree(p))); err != nil {
			return "", err
		}
		if !bytes.Equal(in, out) {
			return "", fmt.Errorf("%d bytes came back changed", n)
		}
		notes += fmt.Sprintf(" %d B %v/%v", n, into.Round(time.Microsecond),
			took.Round(time.Microsecond))
	}
	return "in/out" + notes, nil
}

func (c *checker) vectorAdd() (string, error) {
	const n = 1 << 20
	f, err := c.function("vector_add")
	if err != nil {
		return "", err
	}
	base, r := c.device.MemAlloc(3 * 4 * n)
	if r != gpubackend.Success {
		return "", must("allocate", r)
	}
	host := make([]byte, 2*4*n)
	for i := range n {
		binary.LittleEndian.PutUint32(host[4*i:], math.Float32bits(float32(i)))
		binary.LittleEndian.PutUint32(host[4*(n+i):], math.Float32bits(float32(2*i)))
	}
	parameters := binary.LittleEndian.AppendUint64(nil, base)
	parameters = binary.LittleEndian.AppendUint64(parameters, base+4*n)
	parameters = binary.LittleEndian.AppendUint64(parameters, base+8*n)
	parameters = binary.LittleEndian.AppendUint32(parameters, n)
	r = c.device.CopyIn(base, host, c.stream)
	launch := &gpubackend.Launch{Function: f, Grid: [3]uint32{n / 256, 1, 1},
		Block: [3]uint32{256, 1, 1}, Stream: c.stream, Parameters: parameters}
	if err := firstError(must("copy in", r), must("launch", c.device.Launch(launch)),
		c.wait()); err != nil {
		return "", err
	}
	out := make([]byte, 4*n)
	if err := firstError(must("copy out", c.device.CopyOut(out, base+8*n)),
		must("free", c.device.MemFree(base))); err != nil {
		return "", err
	}
	for i := range n {
		if got := math.Float32frombits(binary.LittleEndian.Uint32(out[4*i:])); got != float32(3*i) {
			return "", fmt.Errorf("element %d is %v, want %v", i, got, 3*i)
		}
	}
	launch.Parameters = make([]byte, 32)
	return "1,048,576 sums",
		want("launch with too many parameters", c.device.Launch(launch),
			gpubackend.LaunchOutOfResources)
}

func (c *checker) emptyLaunch() (*gpubackend.Launch, error) {
	f, err := c.function("empty")
	return &gpubackend.Launch{Function: f, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{32, 1, 1},
		Stream: c.stream}, err
}

func (c *checker) launchRate() (string, error) {
	l, err := c.emptyLaunch()
	if err != nil {
		return "", err
	}
	const n = 20000
	start := time.Now()
	for range n {
		if r := c.device.Launch(l); r != gpubackend.Success {
			return "", must("launch", r)
		}
	}
	submitted := time.Since(start)
	if err := c.wait(); err != nil {
		return "", err
	}
	list := make([]gpubackend.Launch, 100)
	for i := range list {
		list[i] = *l
	}
	start = time.Now()
	for range n / len(list) {
		if _, r := c.device.LaunchAll(list); r != gpubackend.Success {
			return "", must("launch all", r)
		}
	}
	together := time.Since(start)
	return each(submitted, n) + ", together " + each(together, n), c.wait()
}

func (c *checker) launchWait() (string, error) {
	l, err := c.emptyLaunch()
	if err != nil {
		return "", err
	}
	const n = 2000
	start := time.Now()
	for range n {
		if err := firstError(must("launch", c.device.Launch(l)), c.wait()); err != nil {
			return "", err
		}
	}
	return each(time.Since(start), n), nil
}
