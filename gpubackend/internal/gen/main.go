// SPDX-License-Identifier: Apache-2.0

// Command gen turns the descriptions in gpubackend/api into code and documentation: the wire format
// (wire.def), the driver API (cuda.def, prototypes.tsv, versions.tsv) and CUDA's own structures and
// numbers (cuda_layout.def, cuda_values.def, errors.tsv). Every fact is described once there; what
// gen writes is committed, and `make generate` must leave no difference.
//
// Run it from the module's root.
//
// # Files
//
//	running            main.go outputs.go lines.go (of descriptions)
//	lines that fit     markdown.go narrowgo.go
//	wire.def           wire_parse.go wire_write.go
//	cuda.def           api.go parse_functions.go rooms.go kinds.go sets.go work_go.go
//	  for Go           api_go.go api_cuda.go steps_go.go
//	  for C            api_c.go api_c_exports.go api_c_fills.go api_c_tables.go
//	commands.def       parse_commands.go layout.go
//	  for Go           commands_go.go
//	  for C            commands_c.go records_c.go words_c.go (for tests)
//	  for docs         commands_doc.go
//	attributes.tsv     attributes.go
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	structures "github.com/paracuda/paracuda/gpubackend/internal/gen/layout"
)

// output is one generated file.
type output struct {
	path string
	text []byte
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run() error {
	outputs, err := allOutputs()
	if err != nil {
		return err
	}
	for _, o := range outputs {
		if err := write(o); err != nil {
			return err
		}
	}
	return nil
}

// allOutputs is everything that is generated here.
func allOutputs() ([]output, error) {
	w, err := parseWire("gpubackend/api/wire.def")
	if err != nil {
		return nil, err
	}
	outputs := []output{
		{"guestdriver/include/paracuda_wire.h", wireHeader(w)},
		{"gpubackend/wire/zz_generated_wire.go", wireGo(w)},
		{"docs/wire.md", wireDoc(w)},
	}
	more, err := apiOutputs(w)
	if err != nil {
		return nil, err
	}
	cuda, err := structures.Outputs(".")
	if err != nil {
		return nil, err
	}
	for _, o := range cuda {
		more = append(more, output{o.Path, o.Text})
	}
	return append(outputs, more...), nil
}

// final is the text as it is written: Go is formatted, the lines of documents and
// comments are narrow.
func (o output) final() ([]byte, error) {
	switch filepath.Ext(o.path) {
	case ".go":
	case ".md":
		return []byte(narrow(string(o.text))), nil
	default:
		return o.text, nil
	}
	text, err := narrowGo(o.text)
	if err != nil {
		return nil, fmt.Errorf("format %s: %w\n%s", o.path, err, o.text)
	}
	return text, nil
}

func write(o output) error {
	text, err := o.final()
	if err != nil {
		return err
	}
	if old, err := os.ReadFile(o.path); err == nil && bytes.Equal(old, text) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(o.path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(o.path, text, 0o644)
}
