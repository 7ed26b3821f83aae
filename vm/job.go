// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bytes"
	"fmt"
	"strings"
)

// job is what the VM is to do, in the form that guestdriver/init/job.h describes.
func job(d *GuestDriver, p *Program) ([]byte, error) {
	var b jobText
	for _, m := range d.Modules {
		b.add("module", m.File)
		if m.Parameters != "" {
			b.add("parameters", m.Parameters)
		}
	}
	if d.File != "" {
		b.add("wait", d.File)
	}
	b.add("dir", p.Dir)
	for _, dir := range p.placed {
		b.place(dir)
	}
	if d.LibDir != "" {
		b.add("library", d.LibDir)
		for _, dir := range libraryDirs(libraryCache) {
			b.add("over", dir)
		}
	}
	for _, e := range p.Env {
		b.add("env", e)
	}
	b.add("arg", p.Name)
	for _, a := range p.Args {
		b.add("arg", a)
	}
	if p.Stdin == nil {
		b.add("stdin", "null")
	}
	return b.text.Bytes(), b.err
}

type jobText struct {
	text bytes.Buffer
	err  error
}

func (b *jobText) place(p ownDir) {
	if !p.keep {
		b.add("layer", p.dir)
		return
	}
	b.add("write", p.dir)
	if p.tag != "" {
		b.add("tag", p.tag)
	}
}

func (b *jobText) add(key, value string) {
	if strings.ContainsRune(value, 0) {
		b.err = fmt.Errorf("describe the program: %s %q has a zero byte", key, value)
	}
	b.text.WriteString(key + "=" + value + "\x00")
}
