package rocketfsck.oracle;

import java.lang.reflect.Method;
import java.util.Map;

/** Settings of any of RocketMQ's classes for them, by the names that they have in a configuration file. */
public final class Settings {
    private Settings() {}

    /** Sets what {@code given} names; NoSuchMethodException for a setting that this version has not. */
    public static void setAll(Object settings, Map<String, Object> given) throws ReflectiveOperationException {
        for (Map.Entry<String, Object> setting : given.entrySet()) {
            if (!set(settings, setting.getKey(), setting.getValue())) {
                String owner = settings.getClass().getSimpleName();
                throw new NoSuchMethodException(owner + " has no setting " + setting.getKey());
            }
        }
    }

    /** False for a setting that this version has not. */
    public static boolean set(Object settings, String name, Object value) throws ReflectiveOperationException {
        String setter = "set" + Character.toUpperCase(name.charAt(0)) + name.substring(1);
        for (Method method : settings.getClass().getMethods()) {
            if (method.getName().equals(setter) && method.getParameterCount() == 1) {
                Class<?> type = method.getParameterTypes()[0];
                if (type.isPrimitive() || type == String.class) {
                    method.invoke(settings, converted(value, type));
                    return true;
                }
            }
        }
        return false;
    }

    private static Object converted(Object value, Class<?> type) {
        if (type == int.class) {
            return ((Number) value).intValue();
        }
        if (type == double.class) {
            return ((Number) value).doubleValue();
        }
        return type == long.class ? (Object) ((Number) value).longValue() : value;
    }
}
