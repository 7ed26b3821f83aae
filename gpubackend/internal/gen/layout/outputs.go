// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"os"
	"path/filepath"
)

// Output is one generated file.
type Output struct {
	Path string
	Text []byte
}

// Outputs reads the description of a checkout and returns what follows from it.
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
		{"gpubackend/cuda/driver/zz_generated_cuda_layout.h", d.CHostHeader()},
		{"tests/layout/zz_generated_layout.c", d.CheckProgram()},
	}, nil
}

// Structure is what others than this package may know of one.
type Structure struct {
	GoName string
	Bytes  int
}

// Structures are those of a checkout, by their names in C.
func Structures(root string) (map[string]Structure, error) {
	d, err := open(root)
	if err != nil {
		return nil, err
	}
	m := map[string]Structure{}
	for _, s := range d.structs {
		m[s.name] = Structure{s.goName, s.size}
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
