// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// attribute is a device attribute whose value for a guest differs from the driver's.
type attribute struct {
	number, value int
	name, why     string
}

func parseAttributes(path string) (list []attribute, err error) {
	err = eachLine(path, func(line string) error {
		f := strings.Split(line, "\t")
		if len(f) != 4 {
			return fmt.Errorf("want four fields: %q", line)
		}
		number, err := strconv.Atoi(f[0])
		if err != nil {
			return err
		}
		value, err := strconv.Atoi(f[1])
		if err != nil {
			return err
		}
		list = append(list, attribute{number, value, f[2], f[3]})
		return nil
	})
	return list, err
}

// attributeOutputs are the table in the driver's device, in the library and in the documentation.
func attributeOutputs() ([]output, error) {
	list, err := parseAttributes("gpubackend/api/attributes.tsv")
	if err != nil {
		return nil, err
	}
	var g, doc bytes.Buffer
	fmt.Fprintf(&g, "// SPDX-License-Identifier: Apache-2.0\n\n// %s\n\npackage cuda\n\n",
		generated)
	g.WriteString("// masked are the attributes whose values for a guest differ from the " +
		"driver's.\n")
	g.WriteString("var masked = []struct {\nattribute int\nvalue int32\nwhy string\n}{\n")
	c := cFile("Device attributes whose values for programs differ from the device's.")
	c.WriteString("static const struct {\n\tuint8_t attribute;\n\tint32_t value;\n} masked[] = {\n")
	fmt.Fprintf(&doc,
		"<!-- %s -->\n\n# Device attributes\nFor these a guest is told another value than "+
			"the host's driver has. All others are passed on.\n\n", generated)
	doc.WriteString("| number | `CU_DEVICE_ATTRIBUTE_` | value | reason |\n|---|---|---|---|\n")
	for _, a := range list {
		fmt.Fprintf(&g, "{%d, %d, %q},\n", a.number, a.value, a.name+": "+a.why)
		fmt.Fprintf(c, "\t{ %d, %d },\t/* %s */\n", a.number, a.value, a.name)
		fmt.Fprintf(&doc, "| %d | `%s` | %d | %s |\n", a.number, a.name, a.value, a.why)
	}
	g.WriteString("}\n")
	c.WriteString("};\n")
	doc.WriteString("\nNumbers from 144 on are not known to guests (`CUDA_ERROR_INVALID_VALUE`).\n")
	return []output{
		{"gpubackend/cuda/zz_generated_attributes.go", g.Bytes()},
		{libcuda + "devices/zz_generated_attributes.h", c.Bytes()},
		{"docs/attributes.md", doc.Bytes()},
	}, nil
}
