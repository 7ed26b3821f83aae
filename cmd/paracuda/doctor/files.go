// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/paracuda/paracuda/internal/plain"
)

// mostText bounds how much of one of the kernel's files is read.
const mostText = 1 << 16

// path is where a file of the host lies.
func (h *Host) path(name string) string {
	if h.Root == "" {
		return name
	}
	return filepath.Join(h.Root, name)
}

// inside is the name of a file on the host: path's inverse.
func (h *Host) inside(path string) string { return strings.TrimPrefix(path, h.Root) }

func (h *Host) exists(name string) bool {
	_, err := os.Stat(h.path(name))
	return err == nil
}

// text is what a short file says; "" if there is none.
func (h *Host) text(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, mostText))
	return string(b)
}

// word is text without the space around it.
func (h *Host) word(path string) string { return strings.TrimSpace(h.text(path)) }

// oneLine makes a text one line that doesn't command a terminal.
func oneLine(text string) string {
	return plain.Text(strings.ReplaceAll(strings.TrimSpace(text), "\n", " "))
}
