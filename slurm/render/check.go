package render

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// CheckDirectives finds the directives of a batch script that sbatch would drop
// without a word: those below the first command, those that are indented, and
// what stands behind a '#'. Each is named with its line.
func CheckDirectives(script []byte) error {
	var errs []error
	command := 0
	number := 0
	for line := range bytes.Lines(script) {
		number++
		text := strings.TrimRight(string(line), "\r\n")
		trimmed := strings.TrimLeft(text, " \t")
		value, directive := strings.CutPrefix(trimmed, "#SBATCH")
		switch {
		case number == 1:
			if !strings.HasPrefix(text, "#!") {
				errs = append(errs, errors.New("line 1 is not a #! line"))
			}
		case directive && command > 0:
			errs = append(errs, fmt.Errorf("directive at line %d is below the first command at line %d: %s", number, command, trimmed))
		case directive && trimmed != text:
			errs = append(errs, fmt.Errorf("directive at line %d is indented: %s", number, trimmed))
		case directive:
			if i := strings.IndexByte(value, '#'); i >= 0 {
				errs = append(errs, fmt.Errorf("directive at line %d is cut at '#': %s", number, trimmed))
			}
		case trimmed != "" && trimmed[0] != '#' && command == 0:
			command = number
		}
	}
	return errors.Join(errs...)
}
