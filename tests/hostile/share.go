// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"errors"
	"fmt"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

const sharedBytes = 2 << 20

// offerMemory has the channel's worker offer new memory. It returns the memory and the offer's
// number.
func (c *channel) offerMemory() (memory uint64, number uint32, err error) {
	if memory, err = c.must(gpubackend.OpMemCreate, sharedBytes, 0, 0); err != nil {
		return 0, 0, err
	}
	n, err := c.must(gpubackend.OpMemExportToShareableHandle, memory)
	return memory, uint32(n), err
}

// request makes a control request for the channel, which must be answered with OK.
func (c *channel) request(kind, number uint32) (uint32, error) {
	status, answer, err := c.g.ask(wire.ControlRequest{Type: kind, Channel: uint32(c.index),
		Number: number})
	if err == nil && status != wire.StatusOk {
		err = fmt.Errorf("request %d with number %d: status %d, want OK", kind, number, status)
	}
	return answer, err
}

// exported exports new memory, releases it, and returns the handle.
func (c *channel) exported() (handle uint32, err error) {
	memory, number, err := c.offerMemory()
	if err != nil {
		return 0, err
	}
	if handle, err = c.request(wire.ControlExport, number); err != nil {
		return 0, err
	}
	_, err = c.must(gpubackend.OpMemRelease, memory)
	return handle, err
}

// imported imports memory by its handle, and releases it again.
func (c *channel) imported(handle uint32) error {
	number, err := c.request(wire.ControlImport, handle)
	if err != nil {
		return err
	}
	memory, err := c.must(gpubackend.OpMemImportFromShareableHandle, uint64(number))
	if err != nil {
		return err
	}
	_, err = c.must(gpubackend.OpMemRelease, memory)
	return err
}

// leaves is an attack that must leave no descriptors open.
func leaves(name string, do func(*guest, *channel) error) attack {
	return attack{"share: " + name, 24, func(g *guest, c *channel) error {
		_, files := g.resident()
		if err := do(g, c); err != nil {
			return err
		}
		return settles(files+2, g.own)
	}}
}

func shareAttacks() []attack {
	return []attack{
		refused("EXPORT of what isn't offered",
			wire.ControlRequest{Type: wire.ControlExport, Channel: victim, Number: 12345}),
		refused("EXPORT of number 0",
			wire.ControlRequest{Type: wire.ControlExport, Channel: victim}),
		refused("EXPORT of a channel that isn't there",
			wire.ControlRequest{Type: wire.ControlExport, Channel: 2, Number: 1}),
		refused("IMPORT of handle 0",
			wire.ControlRequest{Type: wire.ControlImport, Channel: victim}),
		refused("IMPORT of a made-up handle",
			wire.ControlRequest{Type: wire.ControlImport, Channel: victim, Number: ^uint32(0)}),
		refused("IMPORT to a channel that isn't there",
			wire.ControlRequest{Type: wire.ControlImport, Channel: ^uint32(0), Number: 1}),
		refused("RELEASE of a made-up handle",
			wire.ControlRequest{Type: wire.ControlRelease, Number: 77777}),
		leaves("another channel's offer", func(g *guest, c *channel) error {
			memory, number, err := c.offerMemory()
			if err != nil {
				return err
			}
			if status, err := g.control(wire.ControlRequest{Type: wire.ControlExport,
				Channel: witness, Number: number}); err != nil || status == wire.StatusOk {
				return fmt.Errorf("EXPORT: status %d, want a refusal, %w", status, err)
			}
			_, err = c.must(gpubackend.OpMemRelease, memory)
			return errors.Join(err, c.drop(), c.start())
		}),
		leaves("a handle is released twice", func(g *guest, c *channel) error {
			handle, err := c.exported()
			if err != nil {
				return err
			}
			if _, err = c.request(wire.ControlRelease, handle); err != nil {
				return err
			}
			if _, err = c.request(wire.ControlRelease, handle); err == nil {
				return errors.New("the second RELEASE was answered with OK, want a refusal")
			}
			return nil
		}),
		leaves("numbers of imports are guessed", func(g *guest, c *channel) error {
			handle, err := c.exported()
			if err != nil {
				return err
			}
			number, err := g.channels[witness].request(wire.ControlImport, handle)
			if err != nil {
				return err
			}
			for n := range uint64(200) {
				r, _, err := c.call(gpubackend.OpMemImportFromShareableHandle, uint64(number)-100+n)
				if err != nil || r == gpubackend.Success {
					return fmt.Errorf("import %d of another channel: %d, %w", n, r, err)
				}
			}
			if _, err = g.channels[witness].must(gpubackend.OpMemImportFromShareableHandle,
				uint64(number)); err != nil {
				return err
			}
			_, err = c.request(wire.ControlRelease, handle)
			return err
		}),
		leaves("1,000 offers that nobody exports", func(_ *guest, c *channel) error {
			for range 1000 {
				memory, _, err := c.offerMemory()
				if err != nil {
					return err
				}
				if _, err := c.must(gpubackend.OpMemRelease, memory); err != nil {
					return err
				}
			}
			return errors.Join(c.drop(), c.start())
		}),
		leaves("1,000 imports that nobody asks for", func(_ *guest, c *channel) error {
			handle, err := c.exported()
			if err != nil {
				return err
			}
			for range 1000 {
				_, _ = c.request(wire.ControlImport, handle)
			}
			_, err = c.request(wire.ControlRelease, handle)
			return errors.Join(err, c.drop(), c.start())
		}),
		leaves("the memory of 1,000 handles", func(_ *guest, c *channel) error {
			var handles []uint32
			for len(handles) < 1000 {
				handle, err := c.exported()
				if err != nil {
					break // there may be no more
				}
				handles = append(handles, handle)
			}
			if len(handles) == 0 {
				return errors.New("not one handle was exported")
			}
			err := errors.Join(c.drop(), c.start())
			for _, h := range handles {
				_, e := c.request(wire.ControlRelease, h)
				err = errors.Join(err, e)
			}
			return err
		}),
		leaves("processes end while they export", func(_ *guest, c *channel) error {
			for i := range 20 {
				handle, err := c.exported()
				if err != nil {
					return err
				}
				_, number, err := c.offerMemory()
				if err != nil {
					return err
				}
				if i%2 == 0 {
					if _, err = c.request(wire.ControlImport, handle); err != nil {
						return err
					}
				}
				if err := errors.Join(c.drop(), c.start()); err != nil {
					return err
				}
				if _, err := c.request(wire.ControlExport, number); err == nil {
					return errors.New("the offer of a process that is gone was exported")
				}
				if err := c.imported(handle); err != nil {
					return err
				}
				if _, err = c.request(wire.ControlRelease, handle); err != nil {
					return err
				}
			}
			return nil
		}),
		leaves("2,000 times there and back", func(_ *guest, c *channel) error {
			for range 2000 {
				handle, err := c.exported()
				if err == nil {
					err = c.imported(handle)
				}
				if err != nil {
					return err
				}
				if _, err = c.request(wire.ControlRelease, handle); err != nil {
					return err
				}
			}
			return nil
		}),
	}
}
