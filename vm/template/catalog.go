// SPDX-License-Identifier: Apache-2.0

package template

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/paracuda/paracuda/gpubackend/flock"
	"github.com/paracuda/paracuda/gpubackend/memfd"
)

// most is how many templates a Catalog keeps: those that were used last.
const most = 6

// Catalog is a directory of templates.
type Catalog struct{ Dir string }

// Name is the name of the template that depends on these things.
func Name(things ...string) string {
	h := sha256.New()
	for _, t := range things {
		fmt.Fprintf(h, "%d %s\n", len(t), t)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Maker boots a VM with that memory as far as its copies shall begin, and returns the state of its
// devices and processors. The VM has ended then.
type Maker func(memory *os.File) (state []byte, err error)

// Copy fills memory, which has that size and is zero, with that of the template of a name, and
// returns the state. Where there is no such template, it is made, with memory of its own.
func (c Catalog) Copy(name string, memory *os.File, size int64, make Maker) ([]byte, error) {
	state, err := c.read(name, memory, size)
	if !errors.Is(err, os.ErrNotExist) {
		return state, err
	}
	if err := c.make(name, size, make); err != nil {
		return nil, err
	}
	return c.read(name, memory, size)
}

// Remove removes a template, of which copies don't work.
func (c Catalog) Remove(name string) error { return os.Remove(c.file(name)) }

func (c Catalog) file(name string) string { return filepath.Join(c.Dir, name) }

func (c Catalog) read(name string, memory *os.File, size int64) ([]byte, error) {
	f, err := os.Open(c.file(name))
	if err != nil {
		return nil, fmt.Errorf("read the template of a VM: %w", err)
	}
	defer f.Close()
	now := time.Now()
	_ = os.Chtimes(c.file(name), now, now) // otherwise it goes earlier
	state, err := read(f, memory, size)
	if errors.Is(err, errDamaged) {
		err = errors.Join(err, c.Remove(name))
	}
	if err != nil {
		return nil, fmt.Errorf("read the template of a VM: %w", err)
	}
	return state, nil
}

// make makes a template, unless another process has made it meanwhile.
func (c Catalog) make(name string, size int64, make Maker) error {
	unlock, err := c.lock()
	if err != nil {
		return fmt.Errorf("make the template of a VM: %w", err)
	}
	defer unlock()
	if _, err := os.Stat(c.file(name)); err == nil {
		return nil
	}
	memory, err := NewMemory(size)
	if err != nil {
		return err
	}
	defer memory.Close()
	state, err := make(memory)
	if err != nil {
		return fmt.Errorf("make the template of a VM: %w", err)
	}
	if err := c.keep(name, state, memory, size); err != nil {
		return fmt.Errorf("keep the template of a VM: %w", err)
	}
	return nil
}

// NewMemory makes a file for the memory of a VM.
func NewMemory(size int64) (*os.File, error) {
	const name = "vm-memory"
	fd, err := memfd.New(name, uint64(size))
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// keep writes a template, which is there as a whole or not at all.
func (c Catalog) keep(name string, state []byte, memory *os.File, size int64) error {
	f, err := os.CreateTemp(c.Dir, "new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	err = errors.Join(write(f, state, memory, size), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), c.file(name))
	}
	if err == nil {
		c.prune()
	}
	return err
}

// lock makes the directory, and waits until no other process makes a template.
func (c Catalog) lock() (unlock func(), err error) {
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(c.file("lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := flock.Take(int(f.Fd())); err != nil {
		f.Close()
		return nil, fmt.Errorf("wait for another process: %w", err)
	}
	return func() { f.Close() }, nil
}

// prune removes what is too much, and what processes left that ended while they made a template.
// Only the holder of the lock may call it. Errors don't matter: the next one tries again.
func (c Catalog) prune() {
	type kept struct {
		file string
		used time.Time
	}
	var all []kept
	paths, _ := filepath.Glob(c.file("*"))
	for _, path := range paths {
		info, err := os.Lstat(path)
		switch unfinished, _ := filepath.Match("new-*", filepath.Base(path)); {
		case err != nil || path == c.file("lock"):
		case unfinished:
			_ = os.Remove(path)
		default:
			all = append(all, kept{path, info.ModTime()})
		}
	}
	slices.SortFunc(all, func(a, b kept) int { return b.used.Compare(a.used) })
	for _, k := range all[min(most, len(all)):] {
		_ = os.Remove(k.file)
	}
}
