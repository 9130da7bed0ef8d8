package models

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/disagg/disagg/models/internal/yamlx"
)

// maxVariants bounds a sweep, far above what anybody runs, so that a typing
// error in an axis is a message and not a full memory.
const maxVariants = 4096

// Variant is one point of a sweep: a recipe of its own.
type Variant struct {
	// Name is the recipe's name with a part for each axis: base-tp8-workers2.
	Name string
	// Base is the recipe's own name.
	Base string
	// Point are the values that make the variant, in the order of the axes.
	Point  []SweepValue
	Recipe *Recipe
	// Positions are those of the recipe; a swept key has the place of its value
	// in the sweep.
	Positions Positions
	// Mistakes are those of this point; only ReadSweep returns variants with any.
	Mistakes Mistakes
}

// SweepValue is the value of one axis at one point.
type SweepValue struct {
	Key   string
	Value string
}

// ExpandSweep makes one recipe for each combination of the axes' values, the
// last axis fastest. Without axes the recipe's own count, and a recipe without
// any gives one variant, itself. A value must fit the type and the rules of the
// key it is put in. The error is FieldErrors and holds the mistakes of the
// recipe and of all variants.
func ExpandSweep(file string, data []byte, axes []SweepAxis) ([]Variant, error) {
	variants, err := ReadSweep(file, data, axes)
	if err != nil {
		return nil, err
	}
	return variants, nil
}

// ReadSweep is ExpandSweep for those who look for further mistakes: there is at
// least one variant in any case, with what could be read. Where the axes cannot
// be expanded it is the recipe without them.
func ReadSweep(file string, data []byte, axes []SweepAxis) ([]Variant, error) {
	doc := yamlx.Parse(file, data)
	r, expandable, ok := readRecipe(doc, axes)
	if !ok {
		doc.Excuse("")
		return []Variant{{Recipe: &Recipe{}, Positions: doc.Positions, Mistakes: Mistakes{doc}}}, doc.Err()
	}
	if len(expandable) == 0 && (len(axes) > 0 || len(r.Sweep) > 0 || doc.Failed("sweep")) {
		// What a point would have set is missing here and no mistake.
		r.Sweep = nil
		r.applyDefaults()
		return []Variant{{Name: r.Name, Base: r.Name, Recipe: r, Positions: doc.Positions, Mistakes: Mistakes{doc}}}, doc.Err()
	}
	variants, errs := expand(doc, r.Name, expandable)
	errs = append(errs, mistakes(doc)...)
	return variants, errs.Sort().Err()
}

// axis is an axis whose key is known to be right.
type axis struct {
	key    string
	label  string // what stands before the value in names
	values []yamlx.Value
	texts  []string
}

// sweep checks axes, which are the recipe's own or those of the caller, and
// keeps them when they can be expanded.
func (c *recipeCheck) sweep(list []SweepAxis, own bool) {
	var axes []axis
	points := 1
	good := !c.doc.Failed("sweep")
	for i, s := range list {
		at := yamlx.Index("sweep", i)
		if c.doc.Failed(at) || c.doc.Failed(at+".key") || c.doc.Failed(at+".values") {
			good = false
			continue
		}
		if msg, hint := sweepKey(s.Key, list[:i]); msg != "" {
			c.doc.Fail(at+".key", msg, hint)
			good = false
			continue
		}
		a := axis{key: s.Key, label: sweepLabel(s.Key, list)}
		for j, text := range s.Values {
			v := yamlx.Text(string(text), c.doc.Positions.Near(s.Key))
			if own {
				written, ok := c.doc.Value("sweep", i, "values", j)
				if !ok || c.doc.Failed(yamlx.Index(at+".values", j)) {
					good = false
					continue
				}
				v = written
			}
			a.values, a.texts = append(a.values, v), append(a.texts, string(text))
		}
		points = min(points*max(1, len(a.values)), maxVariants+1)
		good = good && len(a.values) > 0
		axes = append(axes, a)
	}
	if points > maxVariants {
		c.doc.Fail("sweep", fmt.Sprintf("the sweep has more than %d points", maxVariants), "remove values or axes")
		return
	}
	if good {
		c.axes = axes
	}
}

// sweepKey says what is wrong with an axis' key, given the axes before it.
func sweepKey(key string, before []SweepAxis) (msg, hint string) {
	for i, b := range before {
		if b.Key == key || strings.HasPrefix(b.Key, key+".") || strings.HasPrefix(key, b.Key+".") {
			return fmt.Sprintf("%s is swept by axis %d already", key, i+1), "join the two"
		}
	}
	path := strings.Split(key, ".")
	switch path[0] {
	case "apiVersion", "kind", "name", "sweep":
		return path[0] + " cannot be swept", "the name of each run follows from the values of the axes"
	}
	recipe := reflect.TypeFor[Recipe]()
	f, ok := yamlx.Lookup(recipe, path)
	if !ok {
		msg = fmt.Sprintf("%q is not a key of a recipe", key)
		if near := yamlx.Nearest(key, yamlx.Paths(recipe)); near != "" {
			msg += fmt.Sprintf("; did you mean %q?", near)
		}
		return msg, "write the path of a key with dots, such as prefill.tp, client.concurrency or env.NAME"
	}
	if !yamlx.IsScalar(f.Type) {
		return fmt.Sprintf("%s cannot be swept: it is not one value", key), "sweep the keys inside it"
	}
	return "", ""
}

// sweepLabel is the shortest end of the key that no other axis ends with.
func sweepLabel(key string, axes []SweepAxis) string {
	path := strings.Split(key, ".")
	for n := 1; n < len(path); n++ {
		end := strings.Join(path[len(path)-n:], ".")
		same := 0
		for _, a := range axes {
			if a.Key == end || strings.HasSuffix(a.Key, "."+end) {
				same++
			}
		}
		if same == 1 {
			return end
		}
	}
	return key
}

// expand makes the variants of a document that has been read already. The
// mistakes are those of the variants; what is wrong with their names goes to
// the document.
func expand(doc *yamlx.Document, base string, axes []axis) ([]Variant, FieldErrors) {
	var variants []Variant
	var errs FieldErrors
	seen, told := map[string]bool{}, map[string]bool{}
	for at := make([]int, len(axes)); ; {
		v, own := variant(doc, base, axes, at)
		for _, e := range own {
			// What is wrong with many points is told once, at the first of them.
			if key := e.Path + " " + e.Msg; !told[key] {
				told[key] = true
				errs = append(errs, e)
			}
		}
		switch {
		case seen[v.Name]:
			doc.Fail("sweep", fmt.Sprintf("two points of the sweep have the name %s", v.Name), "of a value only letters, digits, '.', '_' and '-' go into the name")
		case len(axes) > 0 && len(v.Name) > maxName:
			doc.Fail("name", fmt.Sprintf("the sweep makes names such as %s, longer than %d characters", v.Name, maxName), "shorten the recipe's name")
		}
		seen[v.Name] = true
		variants = append(variants, v)
		if !next(at, axes) {
			return variants, errs
		}
	}
}

// variant makes the recipe of one point: the values at the given indexes of the
// axes.
func variant(doc *yamlx.Document, base string, axes []axis, at []int) (Variant, FieldErrors) {
	d := doc.Without("sweep")
	v := Variant{Name: base, Base: base, Recipe: &Recipe{}}
	for i, a := range axes {
		text := a.texts[at[i]]
		d = d.With(strings.Split(a.key, "."), a.values[at[i]])
		v.Point = append(v.Point, SweepValue{Key: a.key, Value: text})
		v.Name += "-" + a.label + namePart(text)
	}
	d.Header(APIVersion, KindRecipe)
	d.Decode(v.Recipe)
	(&recipeCheck{doc: d, r: v.Recipe}).run(nil)
	v.Recipe.Name, v.Positions, v.Mistakes = v.Name, d.Positions, Mistakes{d}
	v.Recipe.applyDefaults()
	return v, mistakes(d)
}

// namePart replaces what a name cannot have.
func namePart(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '.', r == '-':
			return r
		}
		return '_'
	}, text)
}

// next goes on to the next combination; false after the last.
func next(at []int, axes []axis) bool {
	for i := len(at) - 1; i >= 0; i-- {
		if at[i]++; at[i] < len(axes[i].values) {
			return true
		}
		at[i] = 0
	}
	return false
}
