package yamlx

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Format is a named form of text that a field can require with is:"name".
type Format struct {
	// Doc says what the text is, to go after "must be": "an absolute path".
	Doc string
	// Pattern is a regular expression that every right text matches, for JSON
	// Schema; it may match more than Check accepts. Empty: none.
	Pattern string
	// Check returns what is wrong with a text, nil when nothing is, and ErrForm
	// when there is nothing to say but that it is something else.
	Check func(string) error
}

// ErrForm is the error of a text that simply has another form.
var ErrForm = errors.New("it has another form")

// Rules are the rules of a field as its struct tags give them.
//
//	enum:"a|b"   the text is one of these
//	min:"1"      the number is at least this
//	max:"9"      the number is at most this
//	items:"some" the list is not empty
//	items:"set"  no two items of the list are equal
//	items:"some set" both
//	is:"name"    the text has this format
//	keys:"name"  the keys of the map have this format
//
// In a list or a map a rule about numbers or texts is about each item.
// A field without omitempty must be set.
type Rules struct {
	Enum     []string
	Min, Max *int64
	NotEmpty bool
	Unique   bool
	Is, Keys string
	Required bool
}

func rulesOf(tag reflect.StructTag) Rules {
	number := func(key string) *int64 {
		text, ok := tag.Lookup(key)
		if !ok {
			return nil
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			panic(fmt.Sprintf("yamlx: tag %s:%q is not a number", key, text))
		}
		return &n
	}
	items := strings.Fields(tag.Get("items"))
	r := Rules{
		Min: number("min"), Max: number("max"), Is: tag.Get("is"), Keys: tag.Get("keys"),
		NotEmpty: slices.Contains(items, "some"), Unique: slices.Contains(items, "set"),
	}
	if e := tag.Get("enum"); e != "" {
		r.Enum = strings.Split(e, "|")
	}
	return r
}

// Check reports every value of the struct or the map that v points to that
// breaks the rules of its field, and every field that must be set and is not.
// It looks only at what the document has set: run it before defaults are put in.
func (d *Document) Check(v any, formats map[string]Format) {
	if d.root != nil {
		d.checkField("", reflect.ValueOf(v).Elem(), Rules{}, formats)
	}
}

func (d *Document) checkStruct(path string, v reflect.Value, formats map[string]Format) {
	for _, f := range Fields(v.Type()) {
		at := Key(path, f.Key)
		if d.Positions.Has(at) {
			d.checkField(at, v.FieldByIndex(f.Index), f.Rules, formats)
		} else if f.Rules.Required {
			d.FailKey(at, at+" is missing", "")
		}
	}
}

func (d *Document) checkField(at string, v reflect.Value, r Rules, formats map[string]Format) {
	if d.Failed(at) {
		return
	}
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return
		}
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Struct:
		// A struct that was written as one scalar has no keys to look at.
		if !HasTextForm(v.Type()) {
			d.checkStruct(at, v, formats)
		}
	case reflect.Map:
		for _, k := range sortedKeys(v) {
			key := k.String()
			if r.Keys != "" {
				if err := (Rules{Is: r.Keys}).checkText(key, formats); err != nil {
					d.FailKey(Key(at, key), fmt.Sprintf("the key %q in %s%s", shorten(key), at, err), "")
				}
			}
			d.checkField(Key(at, key), v.MapIndex(k), r, formats)
		}
	case reflect.Slice:
		d.checkList(at, v, r, formats)
	case reflect.String:
		if err := r.checkText(v.String(), formats); err != nil {
			d.Fail(at, at+err.Error(), "")
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if r.Min != nil && v.Int() < *r.Min {
			hint := ""
			if v.Kind() == reflect.Int64 && HasTextForm(v.Type()) { // a span of time
				hint = "a number without a unit is seconds; write 90s, 45m or 8h"
			}
			d.Fail(at, fmt.Sprintf("%s must be at least %s, not %s", at, show(v, *r.Min), show(v, v.Int())), hint)
		} else if r.Max != nil && v.Int() > *r.Max {
			d.Fail(at, fmt.Sprintf("%s must be at most %s, not %s", at, show(v, *r.Max), show(v, v.Int())), "")
		}
	}
}

func (d *Document) checkList(at string, v reflect.Value, r Rules, formats map[string]Format) {
	if v.Len() == 0 && r.NotEmpty {
		d.Fail(at, at+" is an empty list", "write its items, or remove the key")
		return
	}
	seen := map[any]int{}
	for i := range v.Len() {
		item := v.Index(i)
		d.checkField(Index(at, i), item, r, formats)
		if !r.Unique {
			continue
		}
		if first, twice := seen[item.Interface()]; twice {
			d.Fail(Index(at, i), fmt.Sprintf("%s has %v twice, as item %d and as item %d", at, item.Interface(), first+1, i+1), "remove one of them")
		} else {
			seen[item.Interface()] = i
		}
	}
}

// checkText says what is wrong with a text, to go right after its path.
func (r Rules) checkText(s string, formats map[string]Format) error {
	if strings.ContainsRune(s, 0) {
		return fmt.Errorf(" has a NUL character, which no argument and no variable can carry")
	}
	if len(r.Enum) > 0 && !slices.Contains(r.Enum, s) {
		near := ""
		if n := Nearest(s, r.Enum); n != "" {
			near = fmt.Sprintf("; did you mean %q?", n)
		}
		return fmt.Errorf(" is %q, it must be one of: %s%s", s, strings.Join(r.Enum, ", "), near)
	}
	if r.Is != "" {
		f, ok := formats[r.Is]
		if !ok {
			panic("yamlx: no format " + r.Is)
		}
		if err := f.Check(s); errors.Is(err, ErrForm) {
			return fmt.Errorf(" must be %s, not %q", f.Doc, shorten(s))
		} else if err != nil {
			return fmt.Errorf(": %w", err)
		}
	}
	return nil
}

// shorten cuts a text for a message.
func shorten(s string) string {
	if r := []rune(s); len(r) > maxShown {
		return string(r[:maxShown]) + "…"
	}
	return s
}

// maxShown is how much of a text a message repeats, in characters.
const maxShown = 60

// show prints n as a value of v's type prints itself.
func show(v reflect.Value, n int64) string {
	x := reflect.New(v.Type()).Elem()
	x.SetInt(n)
	return fmt.Sprint(x.Interface())
}

func sortedKeys(m reflect.Value) []reflect.Value {
	keys := m.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	return keys
}
