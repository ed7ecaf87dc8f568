package rocketfsck.oracle;

import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.util.Enumeration;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;

/**
 * Says what a version of the store code is made of, a line each: its classes, the constants in them, the
 * defaults of its settings, and the paths that it makes of a root.
 *
 * <p>What is in a line is between tabs: kind, name, value. Two versions are compared by their lines.
 */
public final class Inventory {
    private static final List<String> PACKAGES =
            List.of("org/apache/rocketmq/store/", "org/apache/rocketmq/common/");
    private static final List<String> SETTINGS = List.of(
            "org.apache.rocketmq.store.config.MessageStoreConfig", "org.apache.rocketmq.common.BrokerConfig");
    private static final List<String> PATHS = List.of(
            "org.apache.rocketmq.store.config.StorePathConfigHelper",
            "org.apache.rocketmq.common.BrokerPathConfigHelper",
            "org.apache.rocketmq.broker.BrokerPathConfigHelper");
    private static final String ROOT = "ROOT";

    private final Set<String> lines = new TreeSet<>();

    private Inventory() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
        System.setOut(System.err); // whatever the store code prints is no answer
        Inventory inventory = new Inventory();
        for (String jar : System.getProperty("java.class.path").split(":")) {
            if (jar.matches(".*/rocketmq-(store|common)-[^/]*\\.jar")) {
                inventory.addClasses(jar);
            }
        }
        SETTINGS.forEach(inventory::addSettings);
        PATHS.forEach(inventory::addPaths);
        inventory.lines.forEach(out::println);
        out.flush();
        Runtime.getRuntime().halt(0); // classes that were looked at may have begun threads
    }

    private void addClasses(String path) throws IOException {
        try (JarFile jar = new JarFile(path)) {
            for (Enumeration<JarEntry> entries = jar.entries(); entries.hasMoreElements(); ) {
                String entry = entries.nextElement().getName();
                if (entry.endsWith(".class") && PACKAGES.stream().anyMatch(entry::startsWith)) {
                    addClass(entry.substring(0, entry.length() - ".class".length()).replace('/', '.'));
                }
            }
        }
    }

    private void addClass(String name) {
        if (!name.matches(".*\\$\\d+")) {
            add("class", name, "");
        }
        try {
            for (Field field : Class.forName(name, false, getClass().getClassLoader()).getDeclaredFields()) {
                int modifiers = field.getModifiers();
                if (Modifier.isStatic(modifiers) && Modifier.isFinal(modifiers) && isPlain(field.getType())) {
                    field.setAccessible(true);
                    add("constant", name + "." + field.getName(), field.get(null));
                }
            }
        } catch (Throwable error) { // a class that needs what is not here has no constants to be read
            add("unread", name, error.getClass().getSimpleName());
        }
    }

    private void addSettings(String name) {
        try {
            Class<?> type = Class.forName(name);
            Object settings = type.getDeclaredConstructor().newInstance();
            for (Field field : type.getDeclaredFields()) {
                if (!Modifier.isStatic(field.getModifiers()) && (isPlain(field.getType()) || field.getType().isEnum())) {
                    field.setAccessible(true);
                    add("setting", type.getSimpleName() + "." + field.getName(), field.get(settings));
                }
            }
        } catch (ReflectiveOperationException | LinkageError error) {
            add("unread", name, error.getClass().getSimpleName());
        }
    }

    private void addPaths(String name) {
        try {
            Class<?> type = Class.forName(name);
            for (Method method : type.getDeclaredMethods()) {
                Class<?>[] parameters = method.getParameterTypes();
                if (Modifier.isPublic(method.getModifiers())
                        && method.getReturnType() == String.class
                        && List.of(parameters).equals(List.of(String.class))) {
                    add("path", type.getSimpleName() + "." + method.getName(), method.invoke(null, ROOT));
                }
            }
        } catch (ReflectiveOperationException | LinkageError error) {
            return; // the class is not in this version, or not in this jar
        }
    }

    private static boolean isPlain(Class<?> type) {
        return type == String.class || type.isPrimitive() || (type.isArray() && type.getComponentType().isPrimitive());
    }

    private void add(String kind, String name, Object value) {
        lines.add(kind + "\t" + name + "\t" + text(value));
    }

    private static String text(Object value) {
        if (value == null || !value.getClass().isArray()) {
            return String.valueOf(value).replaceAll("[\\p{Cntrl}]", "?");
        }
        StringBuilder made = new StringBuilder("[");
        for (int place = 0; place < Array.getLength(value); place++) {
            made.append(place == 0 ? "" : ", ").append(Array.get(value, place));
        }
        return made.append("]").toString();
    }
}
