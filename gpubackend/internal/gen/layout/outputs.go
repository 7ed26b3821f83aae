// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// Output is one generated file.
type Output struct {
	Path string
	Text []byte
}

// Outputs reads the description of a checkout and returns the files generated from it.
func Outputs(root string) ([]Output, error) {
	d, err := open(root)
	if err != nil {
		return nil, err
	}
	return []Output{
		{"gpubackend/cudaabi/zz_generated_layout.go", d.GoStructs()},
		{"gpubackend/cudaabi/zz_generated_values.go", d.GoValues()},
		{"gpubackend/zz_generated_results.go", d.GoResults()},
		{"guestdriver/include/zz_generated_cuda_layout.h", d.CHeader()},
		{"guestdriver/include/zz_generated_cuda_values.h", d.CValues()},
		{"gpubackend/cuda/driver/zz_generated_cuda_layout.h", d.CHostHeader()},
		{"tests/layout/zz_generated_layout.c", d.CheckProgram()},
	}, nil
}

// Number is a number of cudaabi that other descriptions may name: a structure's size or a limit.
type Number struct {
	Value uint64
	InGo  string // its name in cudaabi
	InC   string
}

// Numbers returns a checkout's numbers: sizes by the structures' names in C, limits by their own.
func Numbers(root string) (map[string]Number, error) {
	d, err := open(root)
	if err != nil {
		return nil, err
	}
	return d.numbers()
}

func (d *Description) numbers() (map[string]Number, error) {
	m := map[string]Number{}
	for _, s := range d.structs {
		m[s.name] = Number{uint64(s.size), s.goName + "Size", strconv.Itoa(s.size)}
	}
	for _, g := range d.groups {
		if g.prefix != "" {
			continue
		}
		for _, v := range g.values {
			n, err := strconv.ParseUint(v.number, 0, 32)
			if err != nil {
				return nil, fmt.Errorf("limit %s: %w", v.name, err)
			}
			m[v.name] = Number{n, v.goName, "CUDA_" + v.name}
		}
	}
	return m, nil
}

// open parses the files of a checkout.
func open(root string) (*Description, error) {
	var files [3]*os.File
	for i, name := range []string{"cuda_layout.def", "cuda_values.def", "errors.tsv"} {
		f, err := os.Open(filepath.Join(root, "gpubackend/api", name))
		if err != nil {
			return nil, err
		}
		defer f.Close()
		files[i] = f
	}
	return Parse(files[0], files[1], files[2])
}
