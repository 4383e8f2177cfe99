package main

import (
	"go/types"
	"slices"
	"strings"
)

// surface returns the exported names of a package, a line for each symbol, sorted. Names of parameters, comments and
// unexported members are left out: a line changes only where programs may have to change.
//
// A type of a hidden package has no file of its own. Its members stand with the public name by which programs reach it.
func surface(pkg *types.Package, within repository) []string {
	s := &symbols{pkg: pkg, within: within}
	scope := pkg.Scope()
	for _, name := range scope.Names() {
		object := scope.Lookup(name)
		if !object.Exported() {
			continue
		}
		switch object := object.(type) {
		case *types.Const:
			s.add("const ", name, s.typeOfConst(object.Type()), " = ", object.Val().ExactString())
		case *types.Var:
			s.add("var ", name, " ", s.text(object.Type()))
		case *types.Func:
			s.add("func ", name, s.signature(object.Signature()))
		case *types.TypeName:
			s.typeName(object)
		}
	}
	slices.Sort(s.lines)
	return slices.Compact(s.lines)
}

type symbols struct {
	pkg    *types.Package
	within repository
	lines  []string
}

func (s *symbols) add(parts ...string) { s.lines = append(s.lines, strings.Join(parts, "")) }

func (s *symbols) typeName(object *types.TypeName) {
	name := object.Name()
	alias, ok := object.Type().(*types.Alias)
	if !ok {
		named := object.Type().(*types.Named)
		s.members(name, name+s.parameters(named.TypeParams()), named)
		return
	}
	s.add("type ", name, s.parameters(alias.TypeParams()), " = ", s.text(alias.Rhs()))
	if named, ok := types.Unalias(alias).(*types.Named); ok && s.ofHidden(named) {
		s.members(name, name, named)
	}
}

// members adds a type, its fields and its methods.
func (s *symbols) members(name, declared string, of *types.Named) {
	switch under := of.Underlying().(type) {
	case *types.Struct:
		s.add("type ", declared, " struct")
		s.fields(name, under)
	case *types.Interface:
		s.interfaceOf(name, declared, under)
		return // the methods are part of the interface
	default:
		s.add("type ", declared, " ", s.text(under))
	}
	ofValue := types.NewMethodSet(of)
	ofPointer := types.NewMethodSet(types.NewPointer(of))
	for method := range ofPointer.Methods() {
		if !method.Obj().Exported() || s.promoted(of, method.Index()) {
			continue
		}
		receiver := "(*" + name + ")"
		if ofValue.Lookup(method.Obj().Pkg(), method.Obj().Name()) != nil {
			receiver = "(" + name + ")"
		}
		signature := method.Type().(*types.Signature)
		s.add("method ", receiver, " ", method.Obj().Name(), s.signature(signature))
	}
}

// promoted reports whether a method comes through an embedded field, and the line of that field is enough. A method
// that comes through an unexported field, or from a type without a file, counts as a method of the type that embeds it.
func (s *symbols) promoted(of *types.Named, index []int) bool {
	under, ok := of.Underlying().(*types.Struct)
	if len(index) < 2 || !ok {
		return false
	}
	return s.told(under.Field(index[0]))
}

// told reports whether the line of an embedded field is enough: the members of its type stand in a file, or in another
// module.
func (s *symbols) told(embedded *types.Var) bool {
	kind := embedded.Type()
	if pointer, ok := kind.(*types.Pointer); ok {
		kind = pointer.Elem()
	}
	if alias, ok := kind.(*types.Alias); ok {
		return embedded.Exported() && !s.within.hides(pathOf(alias.Obj()))
	}
	named, ok := kind.(*types.Named)
	return embedded.Exported() && ok && !s.ofHidden(named)
}

func (s *symbols) fields(name string, of *types.Struct) {
	for field := range of.Fields() {
		switch {
		case field.Embedded() && s.told(field):
			s.add("type ", name, " struct, embedded ", s.text(field.Type()))
		case field.Embedded():
			kind := field.Type()
			if pointer, ok := kind.Underlying().(*types.Pointer); ok {
				kind = pointer.Elem()
			}
			if field.Exported() {
				s.add("type ", name, " struct, embedded ", s.text(field.Type()))
			}
			if inner, ok := kind.Underlying().(*types.Struct); ok {
				s.fields(name, inner)
			}
		case field.Exported():
			s.add("type ", name, " struct, ", field.Name(), " ", s.text(field.Type()))
		}
	}
}

// interfaceOf adds an interface with the list of its methods in one line. A new method changes that line, as it should:
// the types of users do not have the method yet.
func (s *symbols) interfaceOf(name, declared string, of *types.Interface) {
	if !of.IsMethodSet() {
		s.add("type ", declared, " ", s.text(of)) // a constraint
		return
	}
	var names []string
	closed := false
	for method := range of.Methods() {
		if !method.Exported() {
			closed = true
			continue
		}
		names = append(names, method.Name())
		s.add("type ", name, " interface, ", method.Name(), s.signature(method.Signature()))
	}
	if closed { // nobody outside of the package can implement it: one more method breaks nothing
		s.add("type ", declared, " interface, unexported methods")
		return
	}
	slices.Sort(names)
	s.add("type ", declared, " interface { ", strings.Join(names, ", "), " }")
}

func (s *symbols) ofHidden(named *types.Named) bool { return s.within.hides(pathOf(named.Obj())) }

func (s *symbols) parameters(list *types.TypeParamList) string {
	if list.Len() == 0 {
		return ""
	}
	var all []string
	for parameter := range list.TypeParams() {
		all = append(all, parameter.Obj().Name()+" "+s.text(parameter.Constraint()))
	}
	return "[" + strings.Join(all, ", ") + "]"
}

func (s *symbols) signature(of *types.Signature) string {
	return s.parameters(of.TypeParams()) + strings.TrimPrefix(s.text(withoutTypeParameters(of)), "func")
}

func (s *symbols) typeOfConst(of types.Type) string {
	if basic, ok := of.(*types.Basic); ok && basic.Info()&types.IsUntyped != 0 {
		return ""
	}
	return " " + s.text(of)
}

// text writes a type as a file of the package would, with two differences. A type of another module has its whole
// import path, for its major version is part of it and the names of two packages may be alike. Parameters have no
// names.
func (s *symbols) text(of types.Type) string {
	return types.TypeString(withoutNames(of), func(other *types.Package) string {
		switch {
		case other == s.pkg || other.Path() == s.pkg.Path():
			return ""
		case strings.Contains(other.Path(), ".") && !s.within.has(other.Path()):
			return other.Path()
		default:
			return other.Name()
		}
	})
}

// withoutNames returns a type in which no function has names for its parameters and results. It leaves declared types
// as they are.
func withoutNames(of types.Type) types.Type {
	switch of := of.(type) {
	case *types.Pointer:
		return types.NewPointer(withoutNames(of.Elem()))
	case *types.Slice:
		return types.NewSlice(withoutNames(of.Elem()))
	case *types.Array:
		return types.NewArray(withoutNames(of.Elem()), of.Len())
	case *types.Map:
		return types.NewMap(withoutNames(of.Key()), withoutNames(of.Elem()))
	case *types.Chan:
		return types.NewChan(of.Dir(), withoutNames(of.Elem()))
	case *types.Signature:
		return types.NewSignatureType(nil, nil, nil, tupleWithoutNames(of.Params()), tupleWithoutNames(of.Results()), of.Variadic())
	case *types.Struct:
		var fields []*types.Var
		var tags []string
		for i := range of.NumFields() {
			f := of.Field(i)
			fields = append(fields, types.NewField(f.Pos(), f.Pkg(), f.Name(), withoutNames(f.Type()), f.Embedded()))
			tags = append(tags, of.Tag(i))
		}
		return types.NewStruct(fields, tags)
	case *types.Interface:
		if !of.IsMethodSet() {
			return of
		}
		var methods []*types.Func
		for m := range of.Methods() {
			signature := withoutNames(m.Type()).(*types.Signature)
			methods = append(methods, types.NewFunc(m.Pos(), m.Pkg(), m.Name(), signature))
		}
		return types.NewInterfaceType(methods, nil).Complete()
	default:
		return of
	}
}

func tupleWithoutNames(of *types.Tuple) *types.Tuple {
	var all []*types.Var
	for v := range of.Variables() {
		all = append(all, types.NewParam(v.Pos(), v.Pkg(), "", withoutNames(v.Type())))
	}
	return types.NewTuple(all...)
}

// withoutTypeParameters returns a function with the same parameters: its own type parameters stand before them.
func withoutTypeParameters(of *types.Signature) *types.Signature {
	return types.NewSignatureType(nil, nil, nil, of.Params(), of.Results(), of.Variadic())
}

func pathOf(object types.Object) string {
	if object.Pkg() == nil {
		return "" // error, comparable
	}
	return object.Pkg().Path()
}
