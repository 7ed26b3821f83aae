// SPDX-License-Identifier: Apache-2.0

package managed

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/fatbin"
)

// Find returns the name of a managed variable of an image, if it has any. All variants of a fat
// binary are made from one source, so it looks at the smallest cubin, or at the smallest PTX if no
// cubin has a known form. What it reads is taken from mem, and the caller gives it back. If mem
// refuses, nothing is found.
func Find(image []byte, mem *budget.Account) (name string, found bool) {
	opened, err := fatbin.Open(image)
	if err != nil {
		return "", false
	}
	if e := smallest(opened.Variants, isCubin); e != nil {
		code, err := e.Payload(mem)
		if err == nil {
			if name, found = findInCubin(code); found || knownForm(code) {
				return name, found
			}
		}
	}
	if e := smallest(opened.Variants, isPTX); e != nil {
		if code, err := e.Payload(mem); err == nil {
			return findInPTX(code, mem)
		}
	}
	return "", false
}

// smallest returns the smallest variant of a kind that can be decompressed, or nil.
func smallest(variants []fatbin.Variant, kind func(*fatbin.Variant) bool) *fatbin.Variant {
	var least *fatbin.Variant
	for i := range variants {
		e := &variants[i]
		if kind(e) && e.Compressed != fatbin.Old && (least == nil || e.Size < least.Size) {
			least = e
		}
	}
	return least
}

func isCubin(e *fatbin.Variant) bool { return e.Kind == fatbin.ELF || e.Kind == fatbin.NewELF }
func isPTX(e *fatbin.Variant) bool   { return e.Kind == fatbin.PTX }

// Open returns the code of an image that a GPU of architecture arch (90 for compute capability 9.0)
// can run and whose managed variables can be placed, the best first: a cubin, then PTX. There is
// none if the image has no managed variables. If it has some and there is no code, the error says
// why: it wraps ErrUnsupported, an error of package fatbin, or budget.ErrExceeded. What the code
// takes until it has been placed is taken from mem.
func Open(image []byte, arch int, mem *budget.Account) ([]*Code, error) {
	opened, err := fatbin.Open(image)
	if err != nil {
		return nil, err
	}
	ptx, ptxErr := openPTX(opened, arch, mem)
	cubin, known, cubinErr := openCubin(opened, arch, mem)
	if cubin != nil && !known && ptx != nil && !subset(cubin, ptx) {
		cubin, cubinErr = nil, fmt.Errorf("cubin of an unknown form: %w", ErrUnsupported)
	}
	var codes []*Code
	for _, c := range []*Code{cubin, ptx} {
		if c != nil && len(c.Variables) > 0 {
			codes = append(codes, c)
		}
	}
	switch {
	case mem.Refused():
		return nil, fmt.Errorf("open image: %w", budget.ErrExceeded)
	case len(codes) > 0, cubinErr == nil && cubin != nil, ptxErr == nil && ptx != nil:
		return codes, nil
	case errors.Is(cubinErr, ErrUnsupported) || ptxErr == nil:
		return nil, cubinErr
	}
	return nil, ptxErr
}

// subset tells whether all variables of a are among those of b.
func subset(a, b *Code) bool {
	names := make(map[string]bool, len(b.Variables))
	for _, v := range b.Variables {
		names[v.Name] = true
	}
	return !slices.ContainsFunc(a.Variables, func(v Variable) bool { return !names[v.Name] })
}

// openCubin takes the cubin for the newest architecture that a GPU can run: of its major version,
// and not above its minor one.
func openCubin(
	image *fatbin.Binary, arch int, mem *budget.Account,
) (c *Code, known bool, err error) {
	var best *fatbin.Variant
	for i := range image.Variants {
		e := &image.Variants[i]
		runs := e.Arch == 0 || e.Arch/10 == arch/10 && e.Arch <= arch
		if isCubin(e) && runs && (best == nil || e.Arch > best.Arch) {
			best = e
		}
	}
	if best == nil {
		return nil, false, fmt.Errorf("no cubin for sm_%d: %w", arch, fatbin.ErrNoBinary)
	}
	code, err := best.Payload(mem)
	if err != nil {
		return nil, false, err
	}
	c, err = newCubin(code, false, mem)
	return c, knownForm(code), err
}

func openPTX(image *fatbin.Binary, arch int, mem *budget.Account) (*Code, error) {
	text, err := image.BestPTX(arch, mem)
	if err != nil {
		return nil, err
	}
	return newPTX(text, false, mem)
}

// findInPTX returns the name of the first managed variable, or "?" if the text can't be read
// although it has one.
func findInPTX(text []byte, mem *budget.Account) (name string, found bool) {
	if !bytes.Contains(text, []byte(".managed")) {
		return "", false
	}
	if mem.Take(uint64(len(text))) != nil {
		return "", false
	}
	variables, err := declarations(string(text), false)
	switch {
	case err != nil:
		return "?", true
	case len(variables) == 0:
		return "", false
	}
	return variables[0].name, true
}
