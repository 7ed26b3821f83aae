// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

const ptxHead = ".version 8.0\n.target sm_80\n.address_size 64\n"

// load loads PTX and returns its module.
func (c *channel) load(text string) (gpubackend.Result, uint64, error) {
	c.g.memory.Write(c.arena+wire.Bulk, append([]byte(text), 0))
	r, out, err := c.call(gpubackend.OpModuleLoadData, bulk(0), uint64(len(text)+1), 0, 0, 0, 0, 0,
		0)
	if err != nil {
		return 0, 0, err
	}
	return r, out[0], nil
}

// function loads PTX and returns its kernel k.
func (c *channel) function(text string) (uint64, error) {
	r, module, err := c.load(text)
	if err != nil || r != gpubackend.Success {
		return 0, fmt.Errorf("load: %d, %w", r, err)
	}
	c.g.memory.Write(c.arena+wire.Bulk, []byte("k\x00"))
	return c.must(gpubackend.OpModuleGetFunction, module, bulk(0), 2)
}

// ptx is an attack that loads PTX which is wrong, or too much.
func ptx(name string, text func() string) attack {
	return attack{"PTX: " + name, 47, func(_ *guest, c *channel) error {
		_, _, err := c.load(text())
		return err
	}}
}

func gpuAttacks() []attack {
	repeat := func(before, s string, n int, after string) func() string {
		return func() string { return ptxHead + before + strings.Repeat(s, n) + after }
	}
	plain := func(s string) func() string { return func() string { return ptxHead + s } }
	list := []attack{
		ptx("nothing", func() string { return "" }),
		ptx("only a head", plain("")),
		ptx("100,000 braces", repeat(".visible .entry k() {", "{", 100000, "}")),
		ptx("1,000,000 registers", plain(".visible .entry k() { .reg .b64 %r<1000000>; ret; }")),
		ptx("2^32-1 registers", plain(".visible .entry k() { .reg .b64 %r<4294967295>; ret; }")),
		ptx("2^63 bytes of shared memory",
			plain(".visible .entry k() { .shared .b8 x[9223372036854775808]; ret; }")),
		ptx("2^64-1 bytes of global memory", plain(".global .b8 x[18446744073709551615];")),
		ptx("2^40 bytes of global memory", plain(".global .b64 x[1099511627776];")),
		ptx("an array of 2^32 by 2^32", plain(".global .b8 x[4294967296][4294967296];")),
		ptx("2^40 bytes of local memory",
			plain(".visible .entry k() { .local .b8 x[1099511627776]; ret; }")),
		ptx("1 MB of one name", repeat(".visible .entry ", "k", 1<<20, "() { ret; }")),
		ptx("50,000 instructions",
			repeat(".visible .entry k() { .reg .b32 %r<2>;", "add.u32 %r1,%r1,1;\n", 50000,
				"ret; }")),
		ptx("10,000 labels", repeat(".visible .entry k() {", "{ L: bra L; }\n", 10000, "ret; }")),
		ptx("100,000 parentheses", repeat(".global .b32 x = ", "(", 100000, ";")),
		ptx("a comment without an end", plain("/* ")),
		ptx("binary", func() string {
			return string([]byte{0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0, 255, 255, 255, 255, 255, 255,
				255, 127, 0})
		}),
		ptx("truncated ELF",
			func() string { return "\x7fELF\x02\x01\x01" + strings.Repeat("\xff", 57) }),
	}
	const kernel = ".visible .entry k(.param .u64 p) { .reg .b64 %a; " +
		"ld.param.u64 %a, [p]; st.global.u64 [%a], %a; ret; }"
	for _, x := range []struct {
		name string
		// Grid and block, shared memory and attributes, bytes of parameters, the parameter.
		words [6]uint64
	}{
		{"no grid", [6]uint64{0, 1 << 32, 1 | 1<<32, 0, 8, 0}},
		{"grid of 2^32-1 cubed", [6]uint64{^uint64(0), 1<<32 | 0xffffffff, 1 | 1<<32, 0, 8, 0}},
		{"block of 2^32-1 cubed", [6]uint64{1 | 1<<32, 1 | 0xffffffff<<32, ^uint64(0), 0, 8, 0}},
		{"block of 0", [6]uint64{1 | 1<<32, 1, 0, 0, 8, 0}},
		{"2^32-1 bytes of shared memory",
			[6]uint64{1 | 1<<32, 1 | 1<<32, 1 | 1<<32, 0xffffffff, 8, 0}},
		{"2^32-1 attributes", [6]uint64{1 | 1<<32, 1 | 1<<32, 1 | 1<<32, 0xffffffff << 32, 8, 0}},
		{"no parameters", [6]uint64{1 | 1<<32, 1 | 1<<32, 1 | 1<<32, 0, 0, 0}},
		{"2^64-1 bytes of parameters",
			[6]uint64{1 | 1<<32, 1 | 1<<32, 1 | 1<<32, 0, ^uint64(0), 0}},
		{"a null pointer", [6]uint64{1 | 1<<32, 1 | 1<<32, 1 | 1<<32, 0, 8, 0}},
		{"an address of the worker's program",
			[6]uint64{1 | 1<<32, 1 | 1<<32, 1 | 1<<32, 0, 8, 0x400000}},
		{"an address of the worker's heap",
			[6]uint64{1 | 1<<32, 1 | 1<<32, 1 | 1<<32, 0, 8, 0xc000000000}},
		{"an address that isn't canonical",
			[6]uint64{1 | 1<<32, 1 | 1<<32, 1 | 1<<32, 0, 8, 1 << 63}},
	} {
		list = append(list, attack{"launch: " + x.name, 48, func(_ *guest, c *channel) error {
			f, err := c.function(ptxHead + kernel)
			if err != nil {
				return err
			}
			words := append([]uint64{f, 0}, x.words[:]...)
			if _, _, err := c.call(gpubackend.OpLaunchKernel, words...); err != nil {
				return err
			}
			_, _, err = c.call(gpubackend.OpCtxSynchronize)
			return err
		}})
	}
	for _, address := range []uint64{0, 4096, 0x400000, 0xc000000000, 0x7ffff7ff0000, 1<<47 - 4096,
		1 << 47, ^uint64(0) &^ 4095} {
		list = append(list,
			attack{fmt.Sprintf("pinned memory at %#x", address), 25,
				func(_ *guest, c *channel) error {
					c.chain(12, wire.ChainHeader{Type: wire.ChainMap, Id: 12, Bytes: 1 << 20,
						Address: address, Flags: wire.MapFlagWrite},
						wire.Run{Address: c.pages, Bytes: 1 << 20})
					_, _, err := c.call(gpubackend.OpHostRegister, 12, address, 1<<20, 0)
					return err
				}}, attack{fmt.Sprintf("memory of graphs at %#x", address), 25,
				func(_ *guest, c *channel) error {
					c.chain(12, wire.ChainHeader{Type: wire.ChainMap, Id: 12, Bytes: 1 << 20,
						Address: address, Flags: wire.MapFlagWrite},
						wire.Run{Address: c.pages, Bytes: 1 << 20})
					_, _, err := c.call(gpubackend.OpHostPageable, 12, address, 1<<20)
					return err
				}})
	}
	return append(list,
		attack{"launch: a kernel that never ends, then CLOSE", 45,
			func(_ *guest, c *channel) error {
				if err := c.launchEndless(); err != nil {
					return err
				}
				return c.drop()
			}},
		attack{"launch: calls that wait for a kernel that never ends", 27,
			func(g *guest, c *channel) error {
				if err := c.launchEndless(); err != nil {
					return err
				}
				before, _ := g.resident()
				end := time.Now().Add(2 * time.Second)
				for i := 0; i < 300000 && time.Now().Before(end); i++ {
					if c.appended-c.get(wire.ArenaHeaderConsumedOffset) > wire.RingBytes-4096 {
						time.Sleep(10 * time.Millisecond) // the worker takes no more, as it should
						continue
					}
					if err := c.append(c.encode(gpubackend.OpCtxSynchronize, wire.CommandFlagReply,
						1)); err != nil {
						return err
					}
				}
				if after, _ := g.resident(); after > before+48<<20 {
					return fmt.Errorf("%d MiB more, want at most 48", (after-before)>>20)
				}
				return c.drop()
			}},
	)
}

// launchEndless launches a kernel that never ends.
func (c *channel) launchEndless() error {
	f, err := c.function(ptxHead + ".visible .entry k() { L: bra L; }")
	if err != nil {
		return err
	}
	return c.send(gpubackend.OpLaunchKernel, f, 0, 1|1<<32, 1|1<<32, 1|1<<32, 0, 0)
}

// cycleAttacks repeat calls that may leak memory or files.
func cycleAttacks() []attack {
	cycle := func(name string, n int, do func(*channel, int) error) attack {
		return attack{"cycles: " + name, 22, func(g *guest, c *channel) error {
			for i := range n / 4 {
				if err := do(c, i); err != nil {
					return err
				}
			}
			if _, err := c.must(gpubackend.OpCtxSynchronize); err != nil {
				return err
			}
			before, files := g.resident()
			for i := range n {
				if err := do(c, i); err != nil {
					return err
				}
			}
			if _, err := c.must(gpubackend.OpCtxSynchronize); err != nil {
				return err
			}
			if after, _ := g.resident(); after > before+48<<20 {
				return fmt.Errorf("%d MiB, %d before", after>>20, before>>20)
			}
			return settles(files+4, g.own)
		}}
	}
	return []attack{
		cycle("100,000 modules that fail", 100000, func(c *channel, _ int) error {
			return c.send(gpubackend.OpModuleLoadData, bulk(0), 0, 0, 0, 0, 0, 0, 0)
		}),
		cycle("100,000 forged launches", 100000, func(c *channel, i int) error {
			return c.send(gpubackend.OpLaunchKernel, uint64(i), 0, 1, 1, 1, 0, 0)
		}),
		cycle("100,000 frees of what isn't there", 100000, func(c *channel, i int) error {
			return c.send(gpubackend.OpMemFree, uint64(i)<<12)
		}),
		cycle("2,000 memory pools", 2000, func(c *channel, _ int) error {
			pool, err := c.must(gpubackend.OpMemPoolCreate, 0, 0, 0)
			if err != nil {
				return err
			}
			return c.send(gpubackend.OpMemPoolDestroy, pool)
		}),
		cycle("100,000 frees in a stream of what isn't there", 100000,
			func(c *channel, i int) error {
				return c.send(gpubackend.OpMemFreeAsync, uint64(i)<<12, 0)
			}),
		cycle("2,000 streams", 2000, func(c *channel, _ int) error {
			s, err := c.must(gpubackend.OpStreamCreateWithPriority, 0, 0)
			if err != nil {
				return err
			}
			return c.send(gpubackend.OpStreamDestroy, s)
		}),
		cycle("2,000 allocations", 2000, func(c *channel, _ int) error {
			a, err := c.must(gpubackend.OpMemAlloc, 1<<20)
			if err != nil {
				return err
			}
			return c.send(gpubackend.OpMemFree, a)
		}),
		{"cycles: 30 workers", 42, func(g *guest, c *channel) error {
			_, files := g.resident()
			for range 30 {
				if err := errors.Join(c.drop(), c.start()); err != nil {
					return err
				}
			}
			return settles(files+2, g.own)
		}},
	}
}
