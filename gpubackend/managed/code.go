// SPDX-License-Identifier: Apache-2.0

package managed

import (
	"errors"
	"fmt"
)

// ErrUnsupported means that code uses managed variables in a way that can't be rewritten.
var ErrUnsupported = errors.New("managed variables are used in a way that paracuda can't rewrite")

// MaxAlign is the largest alignment of a variable in bytes. The address of their area must be a
// multiple of it.
const MaxAlign = 4096

// Bounds on what an image may ask for.
const (
	maxVariables = 1 << 12
	maxName      = 1 << 14  // in a cubin, with its end
	maxBytes     = 1 << 40  // of all variables
	maxText      = 64 << 20 // of PTX, in bytes
	maxUses      = 1 << 20  // in PTX; each adds less than 128 bytes
)

// A Variable is a managed variable.
type Variable struct {
	Name   string
	Offset uint64 // in the area of all variables of the code
	Size   uint64 // in bytes
	// Content names the variable in which the driver puts the initial content; empty: zeros.
	Content string

	align uint64
	at    uint64 // of the initial content in the code, if that has it; 0: it has none
}

// Initial is the initial content that the caller has to write, a part of the code that Place
// returned; nil: zeros, or what Content names.
func (v *Variable) Initial(placed []byte) []byte {
	if v.at == 0 {
		return nil
	}
	return placed[v.at:][:v.Size]
}

// Code is device code for a GPU, with managed variables.
type Code struct {
	Variables []Variable
	// Bytes is the size of the area that holds them.
	Bytes uint64
	// Form is "cubin" or "PTX".
	Form string

	place func(base uint64) []byte
}

// Place returns the code for variables in an area at base, a multiple of MaxAlign.
func (c *Code) Place(base uint64) []byte { return c.place(base) }

// newCode lays the variables out.
func newCode(form string, variables []Variable) (*Code, error) {
	c := &Code{Form: form, Variables: variables}
	names := make(map[string]struct{}, len(variables))
	for i := range variables {
		v := &variables[i]
		if _, twice := names[v.Name]; twice || v.Name == "" {
			return nil, fmt.Errorf("two variables %q: %w", v.Name, ErrUnsupported)
		}
		names[v.Name] = struct{}{}
		if v.align == 0 || v.align&(v.align-1) != 0 || v.align > MaxAlign {
			return nil, fmt.Errorf("%s has an alignment of %d: %w", v.Name, v.align, ErrUnsupported)
		}
		v.Offset = (c.Bytes + v.align - 1) &^ (v.align - 1)
		if v.Size > maxBytes || v.Offset > maxBytes-v.Size {
			return nil, fmt.Errorf("%s has %d bytes: %w", v.Name, v.Size, ErrUnsupported)
		}
		c.Bytes = v.Offset + max(v.Size, 1)
	}
	return c, nil
}
