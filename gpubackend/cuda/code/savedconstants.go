// SPDX-License-Identifier: Apache-2.0

package code

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts"
	"github.com/paracuda/paracuda/gpubackend/cuda/copyable"
)

// Of each constant that the guest knows, the base of its code's area, its address, and the lengths
// of its content and of its name are saved, and these two. After the last one there is a 0.

// SaveConstants writes them.
func (x *Code) SaveConstants(to io.Writer) error {
	for _, a := range x.areas.modules {
		if err := x.saveConstants(to, a, a.owner); err != nil {
			return err
		}
	}
	for _, a := range x.areas.libraries {
		if err := x.saveConstants(to, a, x.contexts.Any()); err != nil {
			return err
		}
	}
	_, err := to.Write(make([]byte, 8))
	return err
}

// saveConstants writes those of an area, whose code is in a context.
func (x *Code) saveConstants(to io.Writer, a *variablesArea, c *contexts.Context) error {
	for i := range a.constants {
		k := &a.constants[i]
		content, r := make([]byte, k.bytes), gpubackend.InvalidContext
		if c != nil {
			r = x.contexts.In(c, func() gpubackend.Result { return x.copyOut(content, k.at) })
		}
		if r != gpubackend.Success {
			return fmt.Errorf("save constant %q: %w", k.name, r.Err())
		}
		var b []byte
		for _, n := range [...]uint64{a.base, k.at, k.bytes, uint64(len(k.name))} {
			b = binary.LittleEndian.AppendUint64(b, n)
		}
		if _, err := to.Write(append(append(b, content...), k.name...)); err != nil {
			return fmt.Errorf("save constant %q: %w", k.name, err)
		}
	}
	return nil
}

var errConstants = errors.New("the saved constants")

// RestoreConstants reads them, for code that is made later. Meanwhile their names count as they did
// before they were saved: there may be thousands, of 4 KiB each.
func (x *Code) RestoreConstants(from io.Reader) error {
	x.areas.restored, x.areas.waiting = make(map[uint64][]constant), x.options.Host.Open()
	for left := uint64(constantsBytes); ; {
		var head [4]uint64
		err := binary.Read(from, binary.LittleEndian, head[:1])
		if err == nil && head[0] == 0 {
			return nil
		}
		if err == nil {
			err = binary.Read(from, binary.LittleEndian, head[1:])
		}
		if err != nil {
			return fmt.Errorf("read %w: %w", errConstants, err)
		}
		bytes, name := head[2], head[3]
		if bytes == 0 || bytes > left || name > maxConstantName {
			return fmt.Errorf("%w have %d bytes, and a name of %d", errConstants, bytes, name)
		}
		if err := x.areas.waiting.Take(name + constantCost); err != nil {
			return fmt.Errorf("%w: %w", errConstants, err)
		}
		left -= min(left, max(bytes, copyable.AliasAlign))
		b := make([]byte, bytes+name)
		if _, err := io.ReadFull(from, b); err != nil {
			return fmt.Errorf("read %w: %w", errConstants, err)
		}
		x.areas.restored[head[0]] = append(x.areas.restored[head[0]], constant{
			name: string(b[bytes:]), at: head[1], bytes: bytes, content: b[:bytes:bytes],
		})
	}
}

// ConstantsRestored says whether all were given to code.
func (x *Code) ConstantsRestored() error {
	if len(x.areas.restored) > 0 {
		return fmt.Errorf("%w are of code that isn't there", errConstants)
	}
	return nil
}
